// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/checkpoint/checkpoint_flags.h"

#include <map>
#include <memory>
#include <string>

#include "tools/weir/checkpoint/checkpoint.h"
#include "tools/weir/jobs/running_job_flags.h"
#include "tools/weir/numbers.h"
#include "tools/weir/shared_flags.h"

namespace weir::tools {
namespace {

using Flags = std::shared_ptr<CheckpointFlags>;
using Run = int (*)(const CheckpointFlags&);

/// A subcommand with the folder as its argument.
CLI::App& add_one(CLI::App& parent, Command& chosen, const Flags& flags, const char* name,
                  const char* meaning, Run run) {
    CLI::App* const command = parent.add_subcommand(name, meaning);
    add_json(*command, flags->json,
             *command->add_option("DIR", flags->folder, "folder of the checkpoints"));
    command->callback(
        [flags, run, &chosen] { chosen.run = [flags, run](Config&) { return run(*flags); }; });
    return *command;
}

void add_number(CLI::App& command, const Flags& flags, const char* meaning) {
    command.add_option("--number,-n", flags->number, meaning)->check(count(1, kLongCountMax));
}

void add_export(CLI::App& parent, Command& chosen) {
    const auto flags = std::make_shared<CheckpointFlags>();
    CLI::App& command = add_one(parent, chosen, flags, "export",
                                "write tables as text, .npz or safetensors", run_checkpoint_export);
    add_number(command, flags, "which one; default: the newest");
    command.add_option("--table,-t", flags->table, "only this one; default: all dense tables");
    command.add_option("--out,-o", flags->out, "file to write, or -")->capture_default_str();
    static const std::map<std::string, ExportFormat> kFormats{
        {"text", ExportFormat::kText},
        {"npz", ExportFormat::kNpz},
        {"safetensors", ExportFormat::kSafetensors}};
    command
        .add_option("--format,-f", flags->format,
                    "text (one table), npz or safetensors (dense tables); default: text")
        ->option_text("WORD")
        ->transform(CLI::Transformer(kFormats))
        ->check([](const std::string& text) {
            return text == "0" || text == "1" || text == "2" || kFormats.contains(text)
                       ? ""
                       : text + ": must be text, npz or safetensors";
        });
    command.add_flag("--state", flags->with_state,
                     "also what the update rule keeps, as NAME.state (npz, safetensors)");
    command.footer(
        "Text: a line for each key with values that are not 0, in no order of keys: KEY VALUE, as\n"
        "`weir predict --model` reads it; with a width of more than 1, KEY INDEX:VALUE...");
}

}  // namespace

void add_checkpoint(CLI::App& app, Command& chosen) {
    CLI::App* const parent = app.add_subcommand(
        "checkpoint",
        "write a checkpoint, look at those there are, export tables, remove old ones");
    parent->require_subcommand(1);
    add_checkpoint_now(*parent, chosen);
    const auto listed = std::make_shared<CheckpointFlags>();
    add_one(*parent, chosen, listed, "list", "all checkpoints of a folder", run_checkpoint_list);
    const auto shown = std::make_shared<CheckpointFlags>();
    CLI::App& show = add_one(*parent, chosen, shown, "show",
                             "the tables and chunks of a checkpoint", run_checkpoint_show);
    add_number(show, shown, "which one; default: the newest");
    const auto verified = std::make_shared<CheckpointFlags>();
    CLI::App& verify = add_one(*parent, chosen, verified, "verify",
                               "read every byte, and compare checksums", run_checkpoint_verify);
    add_number(verify, verified, "which one; default: all");
    add_export(*parent, chosen);
    const auto pruned = std::make_shared<CheckpointFlags>();
    CLI::App& prune = add_one(*parent, chosen, pruned, "prune",
                              "remove all but the newest checkpoints", run_checkpoint_prune);
    prune.add_option("--keep", pruned->keep, "how many stay")
        ->required()
        ->check(count(1, kCountMax));
    prune.add_flag("--unfinished", pruned->unfinished,
                   "also remove what is left of checkpoints that failed after the newest one; only "
                   "when no job writes there");
}

}  // namespace weir::tools

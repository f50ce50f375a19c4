// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/jobs/running_job_flags.h"

#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "tools/weir/jobs/key_values.h"
#include "tools/weir/jobs/running_job.h"
#include "tools/weir/numbers.h"
#include "tools/weir/shared_flags.h"

namespace weir::tools {
namespace {

/// The job that a command is for.
CLI::Option& add_contact(CLI::App& command, std::string& contact) {
    return *command.add_option("JOB", contact, kContactMeaning)
                ->required()
                ->option_text(kContactType);
}

}  // namespace

void add_server(CLI::App& app, Command& chosen) {
    const auto flags = std::make_shared<ServerFlags>();
    CLI::App* const command = app.add_subcommand("server", "join a running job as a server");
    command->add_option("--join", flags->join.contact, kContactMeaning)
        ->required()
        ->option_text(kContactType);
    command->add_option("--shards", flags->join.shards, kShardsMeaning)
        ->check(count(1, 1024))
        ->capture_default_str();
    command
        ->add_option("--weight", flags->join.weight,
                     "share of the parameters, where the servers of the job's start have 1 each")
        ->check(count(1, 1000))
        ->capture_default_str();
    add_json(*command, flags->json);
    add_plugins(*command, flags->plugins,
                "file with update rules to load, as the servers of the job have (`weir help "
                "plugins`); may be given several times");
    add_grace(
        *command, flags->grace_s,
        "seconds after SIGTERM in which it must have handed over all, or it ends without; 0: as "
        "long as it takes");
    command->footer(
        std::string(kContactFooter) +
        "The job gives it its share of the parameters, while training goes on. SIGTERM, or Ctrl-C\n"
        "once, makes it hand over all and end with 0, unless rank 0 of the job gets the signal, "
        "too;\n"
        "Ctrl-C twice, or SIGTERM again after a second, ends it at once. If a signal stops the "
        "training, it ends as the ranks of\n"
        "the job do, with 130 (SIGINT) or 143 (SIGTERM).");
    command->callback([flags, &chosen] {
        chosen.run = [flags](Config& config) { return run_server(*flags, config); };
    });
}

void add_leave(CLI::App& app, Command& chosen) {
    const auto flags = std::make_shared<LeaveFlags>();
    CLI::App* const command = app.add_subcommand("leave", "make a server leave a running job");
    add_json(*command, flags->json, add_contact(*command, flags->contact));
    command->add_option("--server", flags->server, "its number, as `weir status` shows it")
        ->required()
        ->check(count(0, kCountMax));
    command->footer(
        std::string(kContactFooter) +
        "Waits until the server has handed over all that it holds. The last server cannot leave.");
    command->callback([flags, &chosen] {
        chosen.run = [flags](Config& config) { return run_leave(*flags, config); };
    });
}

void add_status(CLI::App& app, Command& chosen) {
    const auto flags = std::make_shared<StatusFlags>();
    CLI::App* const command = app.add_subcommand("status", "show the state of a running job");
    add_json(*command, flags->json, add_contact(*command, flags->contact));
    CLI::Option* const watch = command->add_flag(
        "--watch", flags->watches,
        "look again and again: a screen that is refreshed, with what happens in a second; plain "
        "lines where standard output is no terminal; Ctrl-C ends it");
    command->add_option("--every", flags->every_s, "seconds between two looks of --watch")
        ->needs(watch)
        ->check(number_within(0.1, 3600))
        ->capture_default_str();
    watch->excludes("--json");
    command->footer(kContactFooter);
    command->callback([flags, &chosen] {
        chosen.run = [flags](Config& config) { return run_status(*flags, config); };
    });
}

void add_get(CLI::App& app, Command& chosen) {
    const auto flags = std::make_shared<GetFlags>();
    CLI::App* const command = app.add_subcommand("get", "show values of a table of a running job");
    add_contact(*command, flags->contact);
    command->add_option("TABLE", flags->table, "name of the table")->required()->option_text(" ");
    command
        ->add_option("KEY", flags->keys,
                     fmt::format("keys, or ranges A-B of keys: at most {}", kGetKeysMax))
        ->required()
        ->option_text("...");
    add_json(*command, flags->json);
    command->footer(
        std::string(kContactFooter) +
        "It reads what the servers hold at this moment, and changes nothing. A key that was never "
        "pushed\nhas the initial value of its table, which is said. Keys of which no server says "
        "anything within\n4 s are named, and the command ends with 1. A table that the job does "
        "not "
        "have is answered with the\nnames of those that it has. Of a whole table, export a "
        "checkpoint.");
    command->callback([flags, &chosen] {
        chosen.run = [flags](Config& config) { return run_get(*flags, config); };
    });
}

void add_stop(CLI::App& app, Command& chosen) {
    const auto flags = std::make_shared<StopFlags>();
    CLI::App* const command = app.add_subcommand("stop", "end a running job in order");
    add_json(*command, flags->json, add_contact(*command, flags->contact));
    add_grace(*command, flags->grace_s,
              "seconds for the workers to end by themselves; then all ranks get an error; 0: it "
              "takes as long as it takes");
    command->footer(
        std::string(kContactFooter) +
        "A `weir lr` ends as by SIGTERM to all of its ranks: after this pass, with its results, "
        "and\n"
        "with checkpoints if it has a folder for them; its ranks return 143. A program of your "
        "own\n"
        "is asked by client.is_stopping(). Before that, the job writes a checkpoint, if it has a\n"
        "folder. The command returns when the job is over.");
    command->callback([flags, &chosen] {
        chosen.run = [flags](Config& config) { return run_stop(*flags, config); };
    });
}

void add_checkpoint_now(CLI::App& app, Command& chosen) {
    const auto flags = std::make_shared<CheckpointNowFlags>();
    CLI::App* const command =
        app.add_subcommand("now", "have a running job write a checkpoint, and wait for it");
    add_json(*command, flags->json, add_contact(*command, flags->contact));
    command->add_option("--deadline", flags->deadline_s, "seconds until it must be written")
        ->check(count(1, 86'400))
        ->capture_default_str();
    command->footer(std::string(kContactFooter) +
                    "The job must have a folder for checkpoints: --checkpoint DIR.");
    command->callback([flags, &chosen] {
        chosen.run = [flags](Config& config) { return run_checkpoint_now(*flags, config); };
    });
}

}  // namespace weir::tools

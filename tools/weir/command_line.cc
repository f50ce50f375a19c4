// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/command_line.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "tools/weir/bench_flags.h"
#include "tools/weir/checkpoint/checkpoint_flags.h"
#include "tools/weir/command.h"
#include "tools/weir/doctor/doctor.h"
#include "tools/weir/help/help.h"
#include "tools/weir/help/manual.h"
#include "tools/weir/info/info.h"
#include "tools/weir/info/info_report.h"
#include "tools/weir/jobs/running_job_flags.h"
#include "tools/weir/lr/lr_flags.h"
#include "tools/weir/numbers.h"
#include "tools/weir/run/run_flags.h"
#include "tools/weir/shared_flags.h"
#include "tools/weir/synth.h"
#include "weir_features.h"

namespace weir::tools {
namespace {

void add_synth(CLI::App& app, Command& chosen) {
    const auto flags = std::make_shared<SynthFlags>();
    CLI::App* const command = app.add_subcommand("synth", "write a synthetic click log (LIBSVM)");
    command->add_option("--out,-o", flags->out, "file to write")->required();
    command->add_option("--examples", flags->options.example_count, "examples")
        ->check(count(1, kLongCountMax))
        ->capture_default_str();
    command->add_option("--features", flags->options.feature_count, "features")
        ->check(count(1, kLongCountMax))
        ->capture_default_str();
    command->add_option("--per-example", flags->options.per_example, "features in every example")
        ->check(count(1, kCountMax))
        ->capture_default_str();
    command->add_option("--zipf", flags->options.zipf_exponent, "skew of the features")
        ->capture_default_str();
    command->add_option("--seed", flags->options.seed, "the same seed gives the same bytes")
        ->check(count(0, kLongCountMax))
        ->capture_default_str();
    add_json(*command, flags->json);
    command->callback(
        [flags, &chosen] { chosen.run = [flags](Config&) { return run_synth(*flags); }; });
}

void add_info(CLI::App& app, Command& chosen) {
    const auto flags = std::make_shared<InfoFlags>();
    CLI::App* const command = app.add_subcommand(
        "info", "show what this build, this machine and this environment can do");
    add_json(*command, flags->json);
    command->add_flag("-f,--variables", flags->variables,
                      "only the WEIR_* variables: value, default, meaning");
    add_plugins(*command, flags->plugins,
                "load a file with update rules, and show only what is in it; may be given several "
                "times");
    command->get_option("--plugin")->excludes("--variables");
    command->callback([flags, &chosen] {
        chosen.wants_good_config = false;  // users run it when something is wrong
        chosen.run = [flags](Config& config) { return run_info(*flags, config); };
    });
}

void add_doctor(CLI::App& app, Command& chosen) {
    const auto flags = std::make_shared<DoctorFlags>();
    CLI::App* const command = app.add_subcommand(
        "doctor", "say what would stop a job on this host, and what to do about it");
    CLI::Option* const other =
        command
            ->add_option("HOST:PORT", flags->other,
                         "where `weir doctor --listen` waits: also tries each transport to there")
            ->option_text("[HOST:PORT]");
    command->add_option("--listen", flags->listen, "wait for one `weir doctor` at another host")
        ->option_text("[HOST:]PORT")
        ->excludes(other);
    command->add_option("--wait", flags->wait_s, "seconds that --listen waits")
        ->check(count(1, 86'400))
        ->capture_default_str();
    add_json(*command, flags->json);
    command->footer(
        "It looks at limits, names, addresses, ports, RDMA devices and their GIDs, memory and\n"
        "variables, and tries what a job with these variables does at its start: run it where and\n"
        "as ranks run (`srun -N 4 -n 4 weir doctor`). It ends with 1 if something stops jobs.\n"
        "Between two hosts: `weir doctor --listen 7070` at one, `weir doctor HOST:7070` at the "
        "other.\n"
        "The second one writes for half a second over each transport, and says how fast that was\n"
        "beside a plain TCP stream (over shared memory: a core that copies; over verbs: the link, "
        "where\n"
        "the driver says its rate) in the same run. Give both the WEIR_SECRET_FILE of the job, or "
        "none.");
    command->callback([flags, &chosen] {
        chosen.wants_good_config = false;  // it says what is wrong with it
        chosen.run = [flags](Config& config) { return run_doctor(*flags, config); };
    });
}

/// --json without a FILE, as CLI11 gets it.
constexpr const char* kJsonToStdout = "--json=-";

/// What stands behind --json is a file, if it is no flag: of one that is not given a - is made here, so
/// that CLI11 knows only --json FILE.
std::vector<std::string> with_json_files(const std::vector<std::string>& words) {
    std::vector<std::string> all;
    for (size_t i = 0; i < words.size(); ++i) {
        const bool has_file =
            i + 1 < words.size() && (words[i + 1] == "-" || !words[i + 1].starts_with('-'));
        all.push_back(words[i] == "--json" && !has_file ? kJsonToStdout : words[i]);
    }
    return all;
}

/// The hidden command by which the build makes man pages and completion.
constexpr const char* kManualCommand = "write-manual";

/// The commands that may stand behind one, or behind `weir`; "" if none.
std::string names_of_commands(const CLI::App& app) {
    std::string names;
    for (const CLI::App* const command : app.get_subcommands(nullptr)) {
        if (command->get_group().empty()) continue;  // hidden
        names += (names.empty() ? "" : ", ") + command->get_name();
    }
    return names;
}

/// Returns the message for an unknown subcommand, as in "weir bench frobnicate", or "" if there
/// is none. CLI11 would only say that a subcommand is missing. Sets `parent` to the command that
/// lacks it.
std::string unknown_command(const CLI::App& app, int argc, char** argv, std::string& parent) {
    const CLI::App* at = &app;
    for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
        const std::string name = argv[i];
        const CLI::App* next = nullptr;
        for (const CLI::App* const command : at->get_subcommands(nullptr)) {
            if (command->get_name() == name) next = command;
        }
        const std::string known = names_of_commands(*at);
        if (known.empty() || at->get_name() == "help") return "";
        parent = at == &app ? "" : at->get_name();
        if (next == nullptr) {
            return fmt::format("unknown {} '{}'; choose one of: {}",
                               parent.empty() ? "command" : parent, name, known);
        }
        at = next;
    }
    return "";
}

/// Returns the message for an argument that no option takes, an unknown flag first; "" if there
/// is none.
std::string unknown_argument(const CLI::App& app) {
    const std::vector<std::string> words = app.remaining(true);
    const auto flag = std::find_if(words.begin(), words.end(),
                                   [](const std::string& word) { return word.starts_with('-'); });
    if (flag != words.end())
        return fmt::format("unknown flag {}", *flag == kJsonToStdout ? "--json" : *flag);
    return words.empty() ? "" : fmt::format("unexpected argument '{}'", words.front());
}

/// What CLI11 says is wrong, but in plain words where a flag stands without its value, or twice.
std::string what_is_wrong(const CLI::ParseError& error) {
    const std::string text = error.what();
    if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) == nullptr) return text;
    const size_t end = text.find(": ");
    if (end == std::string::npos) return text;
    const bool is_repeated = text.find("At Most", end) != std::string::npos;
    return text.substr(0, end) +
           (is_repeated ? ": it is given more than once; give it once" : ": a value is missing");
}

/// Returns the message for a command that needs another one behind it, such as `weir checkpoint`; "" if
/// it has that.
std::string missing_command(const CLI::App& app) {
    const CLI::App* at = &app;
    while (!at->get_subcommands().empty())
        at = at->get_subcommands().front();
    const std::string names = names_of_commands(*at);
    return names.empty() ? "" : "a command is missing; choose one of: " + names;
}

/// The subcommands that were chosen so far: "bench push".
std::string chosen_command(const CLI::App& app) {
    std::string words;
    for (auto chosen = app.get_subcommands(); !chosen.empty();
         chosen = chosen.front()->get_subcommands()) {
        words += (words.empty() ? "" : " ") + chosen.front()->get_name();
    }
    return words;
}

}  // namespace

int usage_error(std::string_view what, std::string_view command) {
    fmt::print(stderr, "weir: error: {}\nTry `weir {}{}--help`.\n", what, command,
               command.empty() ? "" : " ");
    return kExitUsage;
}

Command parse_command_line(int argc, char** argv) {
    Command chosen;
    const auto no_run = [&chosen](int exit_code) {
        chosen.run = nullptr;
        chosen.exit_code = exit_code;
        return chosen;
    };
    CLI::App app("A parameter server for RDMA clusters.", "weir");
    app.set_version_flag("--version", version_text,
                         "print the version, and what it was built with, and exit");
    app.require_subcommand(0, 1);  // a missing subcommand is an error below, after the flags
    std::vector<std::string> words(argv + 1, argv + std::max(argc, 1));
    std::vector<std::string> behind;  // --
    const auto dashes = std::ranges::find(words, "--");
    const bool has_dashes = dashes != words.end();
    if (has_dashes && words.front() == "run") {
        behind.assign(dashes + 1, words.end());
        words.erase(dashes, words.end());
    }
    const CLI::App* const run = add_run(app, behind, chosen);
    add_lr(app, chosen);
    add_predict(app, chosen);
    add_bench(app, chosen);
    add_server(app, chosen);
    add_leave(app, chosen);
    add_stop(app, chosen);
    add_status(app, chosen);
    add_get(app, chosen);
    add_checkpoint(app, chosen);
    add_synth(app, chosen);
    add_info(app, chosen);
    add_doctor(app, chosen);
    std::vector<std::string> help_for;
    CLI::App* const help = app.add_subcommand("help", "explain a command or a subject");
    help->add_option("SUBJECT", help_for, "a command, or a subject: " + subject_names());
    std::string manual;
    CLI::App* const write = app.add_subcommand(kManualCommand, "write man pages and completion");
    write->add_option("DIR", manual)->required();
    write->group("");
    app.footer("`weir help SUBJECT` explains: " + subject_names() +
               ".\nExit codes: " + exit_codes("") + ".");
    if (argc < 2) {
        fmt::print(stderr, "{}", app.help());
        return no_run(kExitUsage);
    }
    std::string parent;
    if (const std::string error = unknown_command(app, argc, argv, parent); !error.empty()) {
        return no_run(usage_error(error, parent));
    }
    try {
        words = with_json_files(words);
        std::ranges::reverse(words);  // as CLI11 wants them
        app.parse(words);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) return no_run(app.exit(error));  // --help, --version
        // An unknown argument is reported first: it may be the cause of the other error.
        std::string what = unknown_argument(app);
        if (what.empty()) what = missing_command(app);
        if (what.empty()) what = what_is_wrong(error);
        const bool may_be_of_program = dynamic_cast<const CLI::RequiredError*>(&error) == nullptr ||
                                       what.starts_with("unknown");
        if (run->parsed() && !has_dashes && run->count("PROGRAM") > 0 && may_be_of_program)
            what +=
                "; if the program is to get it, write -- before the program: "
                "`weir run -n 2 -- PROGRAM ARGUMENTS`";
        return no_run(usage_error(what, chosen_command(app)));
    }
    if (help->parsed()) return no_run(print_help(app, help_for));
    if (write->parsed()) {
        const Status written = write_manual(app, manual);
        return no_run(written ? int{kExitOk} : failure(written.error()));
    }
    if (!chosen.run) return no_run(usage_error(missing_command(app), chosen_command(app)));
    chosen.name = chosen_command(app);
    return chosen;
}

}  // namespace weir::tools

// SPDX-License-Identifier: Apache-2.0
/// \file
/// The program `weir`: chooses the subcommand and does what all of them need.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

#include <fmt/core.h>
#include <unistd.h>

#include "lib/base/log.h"
#include "tools/weir/bench.h"
#include "tools/weir/command.h"
#include "tools/weir/info.h"
#include "tools/weir/lr.h"
#include "tools/weir/synth.h"
#include "weir_features.h"

namespace weir::tools {
namespace {

void add_commands(CLI::App& app, Program& program) {
    add_lr(app, program);
    add_bench(app, program);
    add_synth(app, program);
    add_info(app, program);
}

int usage_error(std::string_view what, std::string_view command) {
    fmt::print(stderr, "weir: error: {}\nTry `weir {}{}--help`.\n", what, command,
               command.empty() ? "" : " ");
    return kExitUsage;
}

/// "weir frobnicate", "weir bench frobnicate": CLI11 only says that a subcommand is missing.
/// `parent` becomes the command that has no such one.
std::string unknown_command(const CLI::App& app, int argc, char** argv, std::string& parent) {
    const CLI::App* at = &app;
    for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
        const std::string name = argv[i];
        const CLI::App* next = nullptr;
        std::string known;
        for (const CLI::App* const command : at->get_subcommands(nullptr)) {
            if (command->get_name() == name) next = command;
            known += (known.empty() ? "" : ", ") + command->get_name();
        }
        if (known.empty()) return "";
        parent = at == &app ? "" : at->get_name();
        if (next == nullptr) {
            return fmt::format("there is no {} '{}'; there is: {}",
                               parent.empty() ? "command" : parent, name, known);
        }
        at = next;
    }
    return "";
}

/// "bench push", as far as it was chosen.
std::string chosen_command(const CLI::App& app) {
    std::string words;
    for (auto chosen = app.get_subcommands(); !chosen.empty();
         chosen = chosen.front()->get_subcommands()) {
        words += (words.empty() ? "" : " ") + chosen.front()->get_name();
    }
    return words;
}

LogLevel log_level(std::string_view word) {
    if (word == "debug") return LogLevel::kDebug;
    if (word == "warning") return LogLevel::kWarning;
    if (word == "error") return LogLevel::kError;
    return LogLevel::kInfo;
}

int run(int argc, char** argv) {
    Program program{.config = Config(Environment::snapshot(environ)), .run = {}};
    CLI::App app("A parameter server for RDMA clusters.", "weir");
    app.set_version_flag("--version", "weir " WEIR_VERSION, "print the version and exit");
    app.require_subcommand(0, 1);  // that there is one is checked below, after its flags
    add_commands(app, program);
    if (argc < 2) {
        fmt::print(stderr, "{}", app.help());
        return kExitUsage;
    }
    std::string parent;
    if (const std::string error = unknown_command(app, argc, argv, parent); !error.empty()) {
        return usage_error(error, parent);
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
        return usage_error(error.what(), chosen_command(app));
    }
    if (!program.run) return usage_error("a command is missing", "");
    set_log_sink(stderr_log_sink(), log_level(program.config.text("WEIR_LOG")));
    for (const UnknownVariable& unknown : program.config.unknown())
        log(LogLevel::kWarning, "{}", unknown.message());
    if (program.wants_good_config) {
        if (const Status good = program.config.check(); !good) {
            return usage_error(good.error().message(), chosen_command(app));
        }
    }
    return program.run();
}

/// What was printed must have got somewhere.
int close_output(int code) {
    const bool whole = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    if (whole || code != kExitOk) return code;
    std::perror("weir: error: standard output");
    return kExitFailure;
}

}  // namespace
}  // namespace weir::tools

int main(int argc, char** argv) {
    (void)std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is an error to tell, no death
    try {
        return weir::tools::close_output(weir::tools::run(argc, argv));
    } catch (const std::bad_alloc&) {
        std::fputs("weir: error: not enough memory; allow more, or start more processes\n", stderr);
        return weir::tools::kExitFailure;
    } catch (const std::exception& error) {  // no more threads, mostly
        std::fprintf(stderr, "weir: error: %s\n", error.what());
        return weir::tools::kExitFailure;
    }
}

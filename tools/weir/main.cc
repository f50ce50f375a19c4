// SPDX-License-Identifier: Apache-2.0
/// \file
/// The program `weir`: chooses the subcommand and does what all of them need.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

#include <fmt/format.h>
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

/// "weir frobnicate": CLI11 only says that a subcommand is missing.
std::string unknown_command(const CLI::App& app, int argc, char** argv) {
    if (argc < 2 || argv[1][0] == '-') return "";
    const std::string name = argv[1];
    std::string known;
    for (const CLI::App* const command : app.get_subcommands(nullptr)) {
        if (command->get_name() == name) return "";
        known += (known.empty() ? "" : ", ") + command->get_name();
    }
    return fmt::format("there is no command '{}'; there is: {}", name, known);
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
    if (const std::string error = unknown_command(app, argc, argv); !error.empty()) {
        return usage_error(error, "");
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
        const auto chosen = app.get_subcommands();
        return usage_error(error.what(), chosen.empty() ? "" : chosen.front()->get_name());
    }
    if (!program.run) return usage_error("a command is missing", "");
    set_log_sink(stderr_log_sink(), log_level(program.config.text("WEIR_LOG")));
    for (const UnknownVariable& unknown : program.config.unknown())
        log(LogLevel::kWarning, "{}", unknown.message());
    if (program.wants_good_config) {
        if (const Status good = program.config.check(); !good) {
            return usage_error(good.error().message(), app.get_subcommands().front()->get_name());
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

// SPDX-License-Identifier: Apache-2.0
/// \file
/// The program `weir`: does the work that all subcommands share, and runs the chosen one.
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

#include <unistd.h>

#include "lib/base/log.h"
#include "lib/base/machine/os_limits.h"
#include "tools/weir/command.h"
#include "tools/weir/command_line.h"
#include "tools/weir/option_names.h"

namespace weir::tools {
namespace {

LogLevel log_level(std::string_view word) {
    if (word == "debug") return LogLevel::kDebug;
    if (word == "warning") return LogLevel::kWarning;
    if (word == "error") return LogLevel::kError;
    return LogLevel::kInfo;
}

int run(int argc, char** argv) {
    const Command command = parse_command_line(argc, argv);
    if (!command.run) return command.exit_code;
    Config config(Environment::snapshot(environ));
    name_variables_of(&config);
    const auto say = [to_stderr = stderr_log_sink()](LogLevel level, std::string_view line) {
        to_stderr(level, in_flags(line));
    };
    set_log_sink(say, log_level(config.text("WEIR_LOG")));
    config.warn_of_unknown();
    if (command.wants_good_config) {
        if (const Status good = config.check(); !good)
            return usage_error(good.error().message(), command.name);
    }
    const int code = command.run(config);
    name_variables_of(nullptr);
    return code;
}

/// Flushes stdout. Returns `code`, or a failure if the output could not be written.
int close_output(int code) {
    const bool whole = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    if (whole || code != kExitOk) return code;
    std::perror("weir: error: standard output");
    return kExitFailure;
}

}  // namespace
}  // namespace weir::tools

int main(int argc, char** argv) {
    weir::open_standard_streams();
    (void)std::signal(SIGXFSZ, SIG_IGN);  // so that a limit on file sizes is an error of write()
    try {
        return weir::tools::close_output(weir::tools::run(argc, argv));
    } catch (const std::bad_alloc&) {
        std::fputs(
            "weir: error: not enough memory; allow this process more, or start more processes\n",
            stderr);
        return weir::tools::kExitFailure;
    } catch (const std::exception& error) {  // most likely a thread could not be started
        std::fprintf(stderr, "weir: error: %s\n", error.what());
        return weir::tools::kExitFailure;
    }
}

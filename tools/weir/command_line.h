// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The command line of `weir`. command_line.cc and the files *_flags.cc declare the flags of all
/// subcommands, so that no other file compiles CLI11. A subcommand gets its flags as a struct.

#include <functional>
#include <string>
#include <string_view>

#include "lib/base/config.h"

namespace weir::tools {

/// The command that the command line asks for.
struct Command {
    std::string name;                 ///< "lr", "bench push"
    std::function<int(Config&)> run;  ///< returns the exit code; empty: there is nothing to run
    bool wants_good_config = true;    ///< a bad WEIR_* value ends the program before run()
    int exit_code = 0;                ///< the exit code if `run` is empty
};

/// Parses the command line. For --help, --version and errors it prints the text itself, and the
/// command has no `run`.
[[nodiscard]] Command parse_command_line(int argc, char** argv);

/// Prints what is wrong, and how to get the help of `command`, to stderr. Returns the exit code.
int usage_error(std::string_view what, std::string_view command);

}  // namespace weir::tools

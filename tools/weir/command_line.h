// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The command line of `weir`: every subcommand's flags, declared in one place, so that only
/// command_line.cc compiles CLI11. A subcommand gets its flags as a struct.

#include <functional>
#include <string>
#include <string_view>

#include "lib/base/config.h"

namespace weir::tools {

/// What the words on the command line ask for.
struct Command {
    std::string name;                 ///< "lr", "bench push"
    std::function<int(Config&)> run;  ///< gives the exit code; none: all has been said already
    bool wants_good_config = true;    ///< a bad WEIR_* value ends the program before run()
    int exit_code = 0;                ///< where there is no run
};

/// Help and errors are printed here.
[[nodiscard]] Command parse_command_line(int argc, char** argv);

/// Tells a person what is wrong, and how to get the help of `command`; gives the exit code.
int usage_error(std::string_view what, std::string_view command);

}  // namespace weir::tools

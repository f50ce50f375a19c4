// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How a subcommand of `weir` is put in: a file of its own with a function add_X(CLI::App&,
/// Program&), called by main.cc, that declares its flags and, when it was chosen, sets
/// program.run.

#include <functional>

#include <CLI/CLI.hpp>

#include "lib/base/config.h"

namespace weir::tools {

enum ExitCode : int {
    kExitOk = 0,
    kExitFailure = 1,  ///< it was tried and did not work
    kExitUsage = 2,    ///< flags or variables that make no sense
};

/// What main and the chosen subcommand share.
struct Program {
    Config config;             ///< of the environment; a subcommand adds its flags with set_flag
    std::function<int()> run;  ///< set by the chosen subcommand; gives the exit code
    bool wants_good_config = true;  ///< a bad WEIR_* value ends the program before run()
};

}  // namespace weir::tools

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Shared by all subcommands of `weir`: the exit codes, the output of errors, and the names of
/// options.

#include <cstdio>

#include <fmt/core.h>

#include "lib/base/result.h"
#include "lib/data/labels.h"
#include "tools/weir/option_names.h"

namespace weir::tools {

enum ExitCode : int {
    kExitOk = 0,
    kExitFailure = 1,  ///< the command failed
    kExitUsage = 2,    ///< invalid flags or variables
};

/// What messages call the options of reading: the flags of this program.
inline constexpr data::OptionNames kFlagNames{"--labels", "--skip-bad", "--classes"};

/// Prints the error that ends the command to stderr, and returns the exit code.
inline int failure(const Error& error) {
    fmt::print(stderr, "weir: error: {}\n", in_flags(error.message()));
    return error.code() == Errc::kInvalidArgument ? kExitUsage : kExitFailure;
}

}  // namespace weir::tools

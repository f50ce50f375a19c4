// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What every subcommand of `weir` needs: the meaning of exit codes, and how errors are told.

#include <cstdio>

#include <fmt/core.h>

#include "lib/base/result.h"

namespace weir::tools {

enum ExitCode : int {
    kExitOk = 0,
    kExitFailure = 1,  ///< it was tried and did not work
    kExitUsage = 2,    ///< flags or variables that make no sense
};

/// Tells a person of the error that ends the command; gives the exit code.
inline int failure(const Error& error) {
    fmt::print(stderr, "weir: error: {}\n", error.message());
    return error.code() == Errc::kInvalidArgument ? kExitUsage : kExitFailure;
}

}  // namespace weir::tools

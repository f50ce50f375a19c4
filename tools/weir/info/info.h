// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir info`: prints what this build, machine and environment support, and how to get the
/// missing parts.

#include <string>
#include <vector>

#include "lib/base/config.h"

namespace weir::tools {

struct InfoFlags {
    std::string json;                       ///< as --json says
    bool variables = false;                 ///< only the WEIR_* variables
    std::vector<std::string> plugins = {};  ///< only these files
};

/// Runs the command and returns the exit code.
int run_info(const InfoFlags& flags, const Config& config);

}  // namespace weir::tools

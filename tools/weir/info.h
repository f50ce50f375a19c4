// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir info`: what this build, this machine and this environment can do, and what to do about
/// what they cannot.

#include "lib/base/config.h"

namespace weir::tools {

struct InfoFlags {
    bool json = false;
    bool variables = false;  ///< only the WEIR_* variables
};

/// The whole command; gives the exit code.
int run_info(const InfoFlags& flags, const Config& config);

}  // namespace weir::tools

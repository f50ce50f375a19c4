// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir synth`: writes a synthetic click log.

#include <string>

#include "lib/data/synth.h"

namespace weir::tools {

struct SynthFlags {
    data::SynthOptions options;
    std::string out;
    std::string json = {};  ///< as --json says
};

/// Runs the command and returns the exit code.
int run_synth(const SynthFlags& flags);

}  // namespace weir::tools

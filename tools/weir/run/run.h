// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir run`: starts the ranks of a job on this host, without a launcher.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/base/config.h"

namespace weir::tools {

struct RunFlags {
    static constexpr uint32_t kRanksMax = 1024;

    uint32_t ranks = 0;
    std::vector<std::string> command;  ///< a program and its arguments
    std::vector<std::string> plugins;  ///< files
    std::string rendezvous;            ///< empty: any free port of 127.0.0.1
    /// What the ranks get: WEIR_SERVERS and its like.
    std::map<std::string, std::string> variables;
    uint32_t grace_s = 10;  ///< from SIGTERM to SIGKILL, when a rank has failed
    bool goes_on = false;   ///< when one has failed
    std::string json;       ///< as --json says
};

/// Returns 0, or what the first rank that failed returned, as a shell reports it.
int run_ranks(const RunFlags& flags, const Config& config);

}  // namespace weir::tools

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The commands for running jobs: `weir server` joins one, `weir leave` makes a server leave it,
/// `weir status` shows it.

#include <cstdint>
#include <string>

#include "lib/base/config.h"
#include "lib/job/job.h"
#include "tools/weir/stop_signals.h"

namespace weir::tools {

struct ServerFlags {
    JoinOptions join = one_shard();
    uint32_t grace_s = kGraceSeconds;

private:
    static JoinOptions one_shard() {
        JoinOptions options;
        options.shards = 1;
        return options;
    }
};

struct LeaveFlags {
    std::string contact;  ///< as JoinOptions::contact
    uint32_t server = 0;
};

struct StatusFlags {
    std::string contact;
    bool json = false;
};

int run_server(const ServerFlags& flags, Config& config);
int run_leave(const LeaveFlags& flags, Config& config);
int run_status(const StatusFlags& flags, Config& config);

}  // namespace weir::tools

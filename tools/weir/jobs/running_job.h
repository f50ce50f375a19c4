// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The commands for running jobs: `weir server` joins one, `weir leave` makes a server leave it,
/// `weir status` shows it, `weir get` shows values of its tables, `weir stop` ends it, and
/// `weir checkpoint now` has it write a checkpoint.

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/config.h"
#include "lib/job/job.h"
#include "tools/weir/stop_signals.h"

namespace weir::tools {

struct ServerFlags {
    JoinOptions join = one_shard();
    std::vector<std::string> plugins;  ///< files
    uint32_t grace_s = kGraceSeconds;
    std::string json = {};  ///< as --json says

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
    std::string json = {};
};

struct StatusFlags {
    std::string contact;
    std::string json;  ///< as --json says
    bool watches = false;
    double every_s = 1;  ///< seconds between two looks of --watch
};

struct StopFlags {
    std::string contact;
    uint32_t grace_s = kGraceSeconds;  ///< then the job ends without results; 0: it is waited for
    std::string json = {};
};

struct GetFlags {
    std::string contact;
    std::string table;
    std::vector<std::string> keys;  ///< numbers, and ranges A-B
    std::string json;
};

struct CheckpointNowFlags {
    std::string contact;
    std::string json;
    uint32_t deadline_s = 600;
};

int run_server(const ServerFlags& flags, Config& config);
int run_leave(const LeaveFlags& flags, Config& config);
int run_status(const StatusFlags& flags, Config& config);
int run_stop(const StopFlags& flags, Config& config);
int run_get(const GetFlags& flags, Config& config);
int run_checkpoint_now(const CheckpointNowFlags& flags, Config& config);

}  // namespace weir::tools

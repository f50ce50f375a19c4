// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Whether a running job has come to rest, as its status says.

#include <algorithm>

#include "lib/wire/job_status.h"

namespace weir::bench {

/// Nothing moves, nobody joins, and each segment has its copies.
[[nodiscard]] inline bool is_at_rest(const JobStatus& status) {
    return status.segments_to_copy == 0 && status.segments_to_move == 0 && status.losers.empty() &&
           status.joining_servers == 0;
}

[[nodiscard]] inline bool holds_parameters(const JobStatus::Server& server) {
    return std::ranges::all_of(server.shards, [](const auto& shard) { return shard.share > 0; });
}

}  // namespace weir::bench

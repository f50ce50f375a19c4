// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The limit of every round trip over shared memory: two processes, each alone on its core, pass
/// one record to and fro through two bare byte rings, with nothing else around them.

#include <array>
#include <cstdint>

#include "lib/base/result.h"

namespace weir::bench {

struct RingPingpongOptions {
    uint32_t message_bytes = 8;
    uint32_t rounds = 200'000;  ///< at most; timed one by one, after a tenth as many for warming up
    uint64_t duration_max_ns = 200'000'000;  ///< fewer rounds where others want these cores, too
    std::array<int, 2> cpus = {0, 1};
};

struct RingPingpongResult {
    uint64_t round_count = 0;
    uint64_t p50_ns = 0;
    uint64_t p90_ns = 0;
    uint64_t p99_ns = 0;
    uint64_t max_ns = 0;
};

/// Forks, so call it before threads are started. The calling thread is pinned meanwhile.
/// Errors: kInvalidArgument (message over 64 KiB, no rounds, no such core), kNoMemory, kIo
[[nodiscard]] Result<RingPingpongResult> ring_pingpong(const RingPingpongOptions& options);

}  // namespace weir::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The limits of round trips, between two threads that are each alone on their core.
/// - The flag: each side writes a number to a cache line of its own and waits for it in the other
///   side's line. It contains no code of Weir, so Weir is measured against it.
/// - The ring: one record to and fro through two bare byte rings of Weir. It shows how much of
///   Weir's time the rings take.
/// - The socket: one message to and fro over a TCP connection on loopback. Both sides ask the kernel
///   again and again, which is faster than to sleep. Weir over tcp is measured against it.

#include <array>
#include <cstdint>

#include "lib/base/result.h"

namespace weir::bench {

struct PingpongOptions {
    uint32_t message_bytes = 8;  ///< of the ring's record, of the socket's message
    uint32_t rounds = 200'000;   ///< at most; timed one by one, after some warm-up rounds
    uint64_t duration_max_ns = 200'000'000;  ///< ends the rounds early if the cores are busy
    std::array<int, 2> cpus = {0, 1};        ///< cores of the calling thread and of the other one
};

struct PingpongResult {
    uint64_t round_count = 0;
    uint64_t p50_ns = 0;
};

/// Each starts a thread for the other side, and pin the calling thread until they return.
/// Errors: kInvalidArgument (message over 64 KiB, no rounds, no such core), kNoMemory, kIo
[[nodiscard]] Result<PingpongResult> flag_pingpong(const PingpongOptions& options);
[[nodiscard]] Result<PingpongResult> ring_pingpong(const PingpongOptions& options);
[[nodiscard]] Result<PingpongResult> socket_pingpong(const PingpongOptions& options);

}  // namespace weir::bench

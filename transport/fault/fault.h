// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Fault injection: a device around another one that makes things go wrong by seed, for tests of
/// everything above the transport. What it does stays within the contract, but for corruption.

#include <memory>

#include "lib/base/random.h"
#include "transport/transport.h"

namespace weir::transport {

/// What goes wrong, and how often. May be changed at any time; of one thread.
struct Faults {
    explicit Faults(uint64_t seed) : random(seed) {}

    Random random;
    double not_now = 0;            ///< share of posts that are answered with kNotNow
    uint32_t delay_polls_max = 0;  ///< completions are held back for up to so many polls
    double broken = 0;             ///< share of posts at which the connection breaks
    double corrupted = 0;          ///< share of messages that arrive with one bit flipped
    uint64_t not_now_count = 0;    ///< how often each has happened
    uint64_t broken_count = 0;
    uint64_t corrupted_count = 0;
};

/// Takes over `inner`. A connection that breaks does so here: what was posted and the connection
/// end with kPeerLost, and nothing more arrives; the peer, unless it injects faults too, sees an
/// orderly close.
[[nodiscard]] std::unique_ptr<Device> inject_faults(std::unique_ptr<Device> inner,
                                                    std::shared_ptr<Faults> faults);

}  // namespace weir::transport

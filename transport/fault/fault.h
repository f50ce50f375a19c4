// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Fault injection: a device around another one that injects faults by seed, for tests of
/// everything above the transport. Except for corruption, the faults stay within the contract of
/// transport.h.

#include <memory>
#include <string>

#include "lib/base/random.h"
#include "transport/transport.h"

namespace weir::transport {

/// The faults and their rates. They may be changed at any time. Thread: one.
struct Faults {
    explicit Faults(uint64_t seed) : random(seed) {}

    Random random;
    double not_now = 0;               ///< share of posts that are answered with kNotNow
    uint32_t delay_polls_max = 0;     ///< completions are held back for up to so many polls
    double broken = 0;                ///< share of posts at which the connection breaks
    std::string spared_address = {};  ///< posts on connections that are made to it go on
    double corrupted = 0;             ///< share of messages that arrive with one bit flipped
    uint64_t not_now_count = 0;       ///< how often each fault was injected
    uint64_t broken_count = 0;
    uint64_t corrupted_count = 0;
};

/// Wraps `inner`. A connection that this device breaks is broken on this side only: posted
/// operations and the connection end with kPeerLost, and nothing more arrives. The peer, unless
/// it injects faults too, sees an orderly close.
[[nodiscard]] std::unique_ptr<Device> inject_faults(std::unique_ptr<Device> inner,
                                                    std::shared_ptr<Faults> faults);

}  // namespace weir::transport

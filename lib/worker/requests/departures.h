// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Departures: when the messages of a new call leave.

#include <cstdint>

#include "lib/base/clock.h"

namespace weir {

/// Messages leave at once, except where each departure is a call to the kernel (transport::
/// Capabilities::flush_is_a_call). There a worker that makes one call after the other, and polls in
/// between, saves most of these calls if messages leave with its next poll. But a worker that
/// computes between its calls polls late. So messages wait only
///  - while others are in flight, for whose replies the worker is going to poll, and
///  - unless messages have waited too long: then those of the next calls leave at once.
///
/// Thread: the client's.
class Departures {
public:
    static constexpr uint64_t kWaitNsMax = 50 * kMicrosecond;
    static constexpr uint32_t kWaitingMax = 64;
    static constexpr uint32_t kCautiousCalls = 1000;

    /// The messages of a call are posted, and others are in flight. True: all leave now.
    [[nodiscard]] bool are_due(uint64_t now_ns) noexcept {
        if (waiting_ == 0) since_ns_ = now_ns;
        const bool may_wait = cautious_calls_ == 0;
        if (!may_wait) --cautious_calls_;
        if (may_wait && ++waiting_ < kWaitingMax) return false;
        left(now_ns);
        return true;
    }

    [[nodiscard]] bool are_waiting() const noexcept { return waiting_ > 0; }

    /// All that was waiting leaves.
    void left(uint64_t now_ns) noexcept {
        if (waiting_ > 0 && now_ns - since_ns_ > kWaitNsMax) cautious_calls_ = kCautiousCalls;
        waiting_ = 0;
    }

private:
    uint32_t waiting_ = 0;
    uint64_t since_ns_ = 0;        ///< when the first of them was posted
    uint32_t cautious_calls_ = 0;  ///< that do not wait
};

}  // namespace weir

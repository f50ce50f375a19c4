// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// GiveWay: whether a polling thread yields its CPU. Members of the job that share the CPU answer and wait
/// again, within microseconds. A program that computes takes a whole slice, each time: a thread that yielded
/// to it after every poll would hardly run at all.

#include <algorithm>
#include <cstdint>

#include "lib/base/clock.h"

namespace weir {

/// Thread: one
class GiveWay {
public:
    [[nodiscard]] bool is_due(uint64_t now_ns) const noexcept { return now_ns >= not_before_ns_; }

    /// It yielded, from `from_ns` to `to_ns`.
    void has_yielded(uint64_t from_ns, uint64_t to_ns) noexcept {
        const uint64_t took_ns = to_ns - from_ns;
        if (took_ns < kLongNs) return;
        const uint64_t used_ns = (from_ns - since_ns_) / kShare;
        given_ns_ = given_ns_ > used_ns ? given_ns_ - used_ns : 0;
        given_ns_ += std::min(took_ns, kGivenNsMax);
        since_ns_ = to_ns;
        if (given_ns_ < kGivenNsMax) return;
        not_before_ns_ = to_ns + kShare * kGivenNsMax;
        given_ns_ = 0;
    }

    /// A yield that takes as long went to a program that computes ...
    static constexpr uint64_t kLongNs = 500 * kMicrosecond;
    /// ... as a process of the job does that starts or ends, and then it is good that it gets the CPU. But when
    /// as much has gone there, less a part of the time between, ...
    static constexpr uint64_t kGivenNsMax = 200 * kMillisecond;
    /// ... the thread keeps the CPU for so many times as long, as far as the kernel lets it.
    static constexpr uint64_t kShare = 4;

private:
    uint64_t given_ns_ = 0;  ///< at since_ns_
    uint64_t since_ns_ = 0;  ///< the end of the last long yield
    uint64_t not_before_ns_ = 0;
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Slowdown: how long simulated computing takes, where one worker is slowed at a time.

#include <cstdint>

namespace weir::bench {

/// Computing is simulated by sleeping, so that it takes as long on a machine with few cores. In
/// bursts: the workers are slowed in turn, each for the length of a burst. Steady: the last worker
/// is slowed all the time.
struct Slowdown {
    uint64_t begin_ns = 0;  ///< when the first burst begins
    uint64_t burst_ns = 1;
    double factor = 3;
    bool is_steady = false;
    uint32_t worker_count = 1;

    [[nodiscard]] bool is_slow(uint32_t worker, uint64_t now_ns) const noexcept {
        if (is_steady) return worker + 1 == worker_count;
        return (now_ns - begin_ns) / burst_ns % worker_count == worker;
    }

    /// When the worker has computed for `work_ns` if it begins at `now_ns`, which is not before
    /// begin_ns.
    [[nodiscard]] uint64_t end_of(uint32_t worker, uint64_t now_ns,
                                  uint64_t work_ns) const noexcept {
        auto work = static_cast<double>(work_ns);
        while (true) {
            const double speed = is_slow(worker, now_ns) ? 1 / factor : 1;
            const uint64_t left_ns = burst_ns - (now_ns - begin_ns) % burst_ns;
            const double done = static_cast<double>(left_ns) * speed;
            if (done >= work) return now_ns + static_cast<uint64_t>(work / speed);
            work -= done;
            now_ns += left_ns;
        }
    }
};

}  // namespace weir::bench

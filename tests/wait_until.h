// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// wait_until: how tests on the machine's time wait for something that others do.

#include <cstdint>

#include "lib/base/clock.h"

namespace weir::testing {

inline constexpr uint64_t kPatienceNs = 60 * kSecond;

/// Where other programs compute, a yield lasts as long as their turns, and endpoints look for new
/// peers only once in hundreds of polls: so many polls for each yield.
inline constexpr uint32_t kPollsPerYield = 64;

/// Calls `step()` until `over()`, for `patience_ns` at most. False: it took longer.
template <class Over, class Step>
[[nodiscard]] bool wait_until(Over&& over, Step&& step, uint64_t patience_ns = kPatienceNs) {
    const SteadyClock clock;
    const uint64_t end_ns = clock.now_ns() + patience_ns;
    while (!over()) {
        if (clock.now_ns() > end_ns) return false;
        step();
    }
    return true;
}

}  // namespace weir::testing

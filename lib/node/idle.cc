// SPDX-License-Identifier: Apache-2.0
#include "lib/node/idle.h"

#include <algorithm>
#include <ctime>

#include <poll.h>
#include <sched.h>

#include "lib/base/clock.h"

namespace weir {
namespace {

constexpr uint64_t kLooksPerClock = 32;  // reading the clock costs as much as a poll

void relax() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

}  // namespace

void Idle::reset() noexcept {
    if (rounds_ == 0) return;
    rounds_ = 0;
    misses_ = yielding_ ? std::min(misses_ + 1, kMissesMax) : 0;
}

bool Idle::rest() noexcept {
    const uint64_t round = rounds_++;
    if (round == 0) {
        since_ns_ = SteadyClock().now_ns();
        const bool in_vain = misses_ == kMissesMax && ++without_spin_ % kWaitsPerTry != 0;
        yielding_ = in_vain || options_.spin_ns == 0;
        return false;
    }
    if (yielding_) {
        if (!yield()) return true;
    } else {
        relax();
        if (round % kLooksPerClock != 0) return false;
    }
    const uint64_t idle_ns = SteadyClock().now_ns() - since_ns_;
    yielding_ = yielding_ || idle_ns >= options_.spin_ns;
    return idle_ns >= options_.spin_ns + options_.yield_ns;
}

void Idle::give_way() noexcept {
    (void)yield();
}

bool Idle::yield() noexcept {
    const SteadyClock clock;
    const uint64_t from_ns = clock.now_ns();
    if (!way_.is_due(from_ns)) return false;
    sched_yield();
    way_.has_yielded(from_ns, clock.now_ns());
    return true;
}

void Idle::sleep(int descriptor, uint64_t sleep_ns_max) noexcept {
    pollfd wanted{descriptor, POLLIN, 0};
    const uint64_t sleep_ns = std::min(options_.sleep_ns, sleep_ns_max);
    const timespec at_most{static_cast<time_t>(sleep_ns / kSecond),
                           static_cast<long>(sleep_ns % kSecond)};
    (void)::ppoll(&wanted, 1, &at_most, nullptr);  // an error only makes the sleep short
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "lib/node/idle.h"

#include <ctime>

#include <poll.h>
#include <sched.h>

#include "lib/base/clock.h"

namespace weir {
namespace {

constexpr uint64_t kLooksPerClock = 32;  // reading the clock costs as much as a look

void relax() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

}  // namespace

bool Idle::rest() noexcept {
    const uint64_t round = rounds_++;
    if (round == 0) {
        since_ns_ = SteadyClock().now_ns();
        yielding_ = options_.spin_ns == 0;
        return false;
    }
    if (yielding_) {
        sched_yield();
    } else {
        relax();
        if (round % kLooksPerClock != 0) return false;
    }
    const uint64_t idle_ns = SteadyClock().now_ns() - since_ns_;
    yielding_ = idle_ns >= options_.spin_ns;
    return idle_ns >= options_.spin_ns + options_.yield_ns;
}

void Idle::sleep(int descriptor) noexcept {
    pollfd wanted{descriptor, POLLIN, 0};
    const timespec at_most{static_cast<time_t>(options_.sleep_ns / kSecond),
                           static_cast<long>(options_.sleep_ns % kSecond)};
    (void)::ppoll(&wanted, 1, &at_most, nullptr);  // an error is a short sleep
}

}  // namespace weir

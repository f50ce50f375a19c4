// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Idle: what a polling loop does when there was nothing to do: spin briefly (the answer is often a
/// microsecond away), then yield (somebody else may need this core to make the answer), then sleep.
/// Where answers never come while it spins (the one who makes them has no other core, or is far
/// away), it learns to yield at once.

#include <cstdint>

namespace weir {

struct IdleOptions {
    uint64_t spin_ns = 20'000;       ///< spinning, for the lowest latency
    uint64_t yield_ns = 200'000;     ///< then yielding after every look
    uint64_t sleep_ns = 50'000'000;  ///< then sleeping, at most this long at a time
};

/// Thread: one.
class Idle {
public:
    explicit Idle(const IdleOptions& options) noexcept : options_(options) {}

    /// There was something to do: start over.
    void reset() noexcept;

    /// There was nothing to do. `arm` gives a descriptor to sleep on or -1, as StateMachine::arm.
    /// Sleeps at most as long as the options and `sleep_ns_max` say.
    template <class Arm>
    void wait(Arm&& arm, uint64_t sleep_ns_max = ~uint64_t{0}) noexcept {
        if (!rest()) return;
        const int descriptor = arm();
        if (descriptor >= 0) sleep(descriptor, sleep_ns_max);
    }

    /// Between two looks it yields now, and does not spin.
    [[nodiscard]] bool yields() const noexcept { return yielding_; }

    static constexpr uint32_t kMissesMax = 4;     ///< waits longer than a spin: then no more spins
    static constexpr uint32_t kWaitsPerTry = 32;  ///< but for one wait in so many

private:
    /// Spins or yields once; true when it is time to sleep.
    bool rest() noexcept;
    void sleep(int descriptor, uint64_t sleep_ns_max) noexcept;

    IdleOptions options_;
    uint64_t rounds_ = 0;    ///< looks in a row that found nothing
    uint64_t since_ns_ = 0;  ///< when they began
    bool yielding_ = false;
    uint32_t misses_ = 0;        ///< waits in a row that outlasted the spinning
    uint32_t without_spin_ = 0;  ///< waits since then
};

}  // namespace weir

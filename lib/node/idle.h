// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Idle: what a polling loop does when there was nothing to do: spin briefly (the answer is often a
/// microsecond away), then yield (somebody else may need this core to make the answer), then sleep.

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
    void reset() noexcept { rounds_ = 0; }

    /// There was nothing to do. `arm` gives a descriptor to sleep on or -1, as StateMachine::arm.
    template <class Arm>
    void wait(Arm&& arm) noexcept {
        if (!rest()) return;
        const int descriptor = arm();
        if (descriptor >= 0) sleep(descriptor);
    }

private:
    /// Spins or yields once; true when it is time to sleep.
    bool rest() noexcept;
    void sleep(int descriptor) noexcept;

    IdleOptions options_;
    uint64_t rounds_ = 0;    ///< looks in a row that found nothing
    uint64_t since_ns_ = 0;  ///< when they began
    bool yielding_ = false;
};

}  // namespace weir

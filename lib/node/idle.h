// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Idle: what a polling loop does when there is nothing to do. It spins briefly, because the
/// answer often comes within a microsecond; then it yields, because the peer may need this core
/// to make the answer; then it sleeps. If answers never come while it spins (the peer has no
/// other core, or is far away), it learns to yield at once. If it gets the core back late (somebody
/// computes there), it sleeps at once for a while: who sleeps is woken when there is something to do.

#include <cstdint>

#include "lib/node/give_way.h"

namespace weir {

struct IdleOptions {
    uint64_t spin_ns = 20'000;       ///< spinning, for the lowest latency
    uint64_t yield_ns = 200'000;     ///< then yielding after every poll
    uint64_t sleep_ns = 50'000'000;  ///< then sleeping, at most this long at a time
};

/// Thread: one.
class Idle {
public:
    explicit Idle(const IdleOptions& options) noexcept : options_(options) {}

    /// The last poll had something to do: start over.
    void reset() noexcept;

    /// The last poll had nothing to do: spins, yields or sleeps once. `arm` returns a descriptor
    /// to sleep on or -1, as StateMachine::arm(). Sleeps at most options.sleep_ns and
    /// `sleep_ns_max`.
    template <class Arm>
    void wait(Arm&& arm, uint64_t sleep_ns_max = ~uint64_t{0}) noexcept {
        if (!rest()) return;
        const int descriptor = arm();
        if (descriptor >= 0) sleep(descriptor, sleep_ns_max);
    }

    /// The last poll may have done work that nobody waits for: others may use the core, if they give it
    /// back soon.
    void give_way() noexcept;

    /// True if it now yields between two polls, rather than spins.
    [[nodiscard]] bool yields() const noexcept { return yielding_; }

    /// After so many waits in a row that outlast the spin, a wait does not spin ...
    static constexpr uint32_t kMissesMax = 4;
    /// ... except one in so many, because answers may come faster again.
    static constexpr uint32_t kWaitsPerTry = 32;

private:
    /// Spins or yields once; true when it is time to sleep.
    bool rest() noexcept;
    /// False: not now.
    bool yield() noexcept;
    void sleep(int descriptor, uint64_t sleep_ns_max) noexcept;

    IdleOptions options_;
    uint64_t rounds_ = 0;    ///< polls in a row that had nothing to do
    uint64_t since_ns_ = 0;  ///< when the first of them ended
    bool yielding_ = false;
    GiveWay way_;
    uint32_t misses_ = 0;        ///< waits in a row that outlasted the spinning
    uint32_t without_spin_ = 0;  ///< waits while misses_ is kMissesMax
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0

#include "lib/node/idle.h"

#include <doctest/doctest.h>

#include "lib/base/clock.h"

namespace weir {
namespace {

/// One wait that ends with something to do after it began to yield (`long_enough`) or before.
/// Returns whether it has spun.
bool wait_once(Idle& idle, bool long_enough) {
    const auto arm = [] { return -1; };
    idle.wait(arm);
    idle.wait(arm);
    const bool spins = !idle.yields();
    while (long_enough && !idle.yields())
        idle.wait(arm);
    idle.reset();
    return spins;
}

}  // namespace

TEST_SUITE("idle") {
    TEST_CASE("who never finds anything while it spins stops spinning, but for a try at times") {
        Idle idle({.spin_ns = kMillisecond, .yield_ns = 1000 * kMillisecond});
        for (uint32_t i = 0; i < Idle::kMissesMax; ++i)
            CHECK(wait_once(idle, true));
        uint32_t spun = 0;
        for (uint32_t i = 0; i < 3 * Idle::kWaitsPerTry; ++i)
            spun += wait_once(idle, true) ? 1 : 0;
        CHECK(spun == 3);
    }

    TEST_CASE("who finds something while it spins goes on spinning") {
        Idle idle({.spin_ns = 1000 * kMillisecond});
        for (uint32_t i = 0; i < 3 * Idle::kWaitsPerTry; ++i)
            CHECK(wait_once(idle, false));
    }

    TEST_CASE("a try that finds something brings the spinning back") {
        Idle idle({.spin_ns = 20 * kMillisecond, .yield_ns = 1000 * kMillisecond});
        for (uint32_t i = 0; i < Idle::kMissesMax; ++i)
            (void)wait_once(idle, true);
        CHECK_FALSE(wait_once(idle, false));
        uint32_t waits = 1;
        while (!wait_once(idle, false))
            ++waits;
        CHECK(waits < Idle::kWaitsPerTry);
        CHECK(wait_once(idle, false));
    }

    TEST_CASE("without time to spin it yields from the start") {
        Idle idle({.spin_ns = 0});
        CHECK_FALSE(wait_once(idle, true));
    }
}

}  // namespace weir

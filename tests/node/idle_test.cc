// SPDX-License-Identifier: Apache-2.0

#include "lib/node/idle.h"

#include <doctest/doctest.h>

#include "lib/base/clock.h"
#include "lib/node/give_way.h"

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

    TEST_CASE(
        "who yields to members of the job, or for a moment to one that starts, does so again") {
        GiveWay way;
        uint64_t now_ns = kSecond;
        for (uint64_t i = 0; i < 100'000; ++i) {
            CHECK(way.is_due(now_ns));
            const uint64_t took_ns = i % 1000 < 20 ? 4 * kMillisecond : 100 * kMicrosecond;
            way.has_yielded(now_ns, now_ns + took_ns);
            now_ns += took_ns + 400 * kMicrosecond;
        }
    }

    TEST_CASE(
        "who yields to a program that computes has most of its share of the CPU all the same") {
        GiveWay way;
        const uint64_t began_ns = kSecond;
        const uint64_t end_ns = 21 * kSecond;
        uint64_t now_ns = began_ns;
        uint64_t yielded_ns = 0;
        while (now_ns < end_ns) {
            if (way.is_due(now_ns)) {
                const uint64_t took_ns = 5 * kMillisecond;
                way.has_yielded(now_ns, now_ns + took_ns);
                now_ns += took_ns;
                yielded_ns += took_ns;
            }
            now_ns += 20 * kMicrosecond;  // a poll
        }
        const double share =
            static_cast<double>(yielded_ns) / static_cast<double>(end_ns - began_ns);
        CHECK(share > 0.1);
        CHECK(share < 0.35);
    }

    TEST_CASE("who was stopped while it yielded yields again before long") {
        GiveWay way;
        way.has_yielded(kSecond, 100 * kSecond);
        CHECK(way.is_due(102 * kSecond));
    }
}

}  // namespace weir

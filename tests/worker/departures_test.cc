// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/requests/departures.h"

#include <doctest/doctest.h>

namespace weir {

TEST_SUITE("departures") {
    TEST_CASE("messages wait for the next poll, but not for too many others") {
        Departures departures;
        for (uint32_t i = 1; i < Departures::kWaitingMax; ++i)
            CHECK_FALSE(departures.are_due(i));
        CHECK(departures.are_due(Departures::kWaitingMax));
        CHECK_FALSE(departures.are_waiting());
        CHECK_FALSE(departures.are_due(1000));
        CHECK(departures.are_waiting());
        departures.left(2000);
        CHECK_FALSE(departures.are_waiting());
    }

    TEST_CASE("after messages that waited too long, those of the next calls leave at once") {
        Departures departures;
        uint64_t now_ns = 0;
        for (int round = 0; round < 3; ++round) {
            CHECK_FALSE(departures.are_due(now_ns));
            now_ns += 10 * Departures::kWaitNsMax;
            departures.left(now_ns);
            for (uint32_t i = 0; i < Departures::kCautiousCalls; ++i)
                CHECK(departures.are_due(++now_ns));
        }
        CHECK_FALSE(departures.are_due(now_ns));
        departures.left(now_ns + Departures::kWaitNsMax);  // not too long
        CHECK_FALSE(departures.are_due(now_ns));
    }
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "transport/net/half_open.h"

#include <doctest/doctest.h>

namespace weir::transport {
TEST_SUITE("half_open") {
    TEST_CASE("while a place is free, a connection is accepted at once") {
        ManualClock clock;
        clock.set(5 * kSecond);
        HalfOpenPlaces places(clock, 2, 32 * kMillisecond);
        CHECK(places.next_ns() == 0);
        places.take(1);
        CHECK(places.count() == 1);
        CHECK(places.next_ns() == 0);
        places.take(2);
        CHECK(places.is_full());
        CHECK(places.leave(1));
        CHECK_FALSE(places.leave(1));
        CHECK(places.next_ns() == 0);
    }

    TEST_CASE("when all places are taken, the oldest loses its place, but not at once") {
        ManualClock clock;
        clock.set(5 * kSecond);
        HalfOpenPlaces places(clock, 2, 32 * kMillisecond);
        places.take(1);
        clock.advance(kMillisecond);
        places.take(2);
        CHECK(places.next_ns() == 5 * kSecond + kMillisecond);
        CHECK(places.next_evicted() == 1);
        places.leave(1);
        places.take(3);
        CHECK(places.next_evicted() == 2);
        CHECK(places.next_ns() == 5 * kSecond + 2 * kMillisecond);
    }

    TEST_CASE("a peer with a valid proof keeps its place until it leaves") {
        ManualClock clock;
        clock.set(5 * kSecond);
        HalfOpenPlaces places(clock, 2, 32 * kMillisecond);
        places.take(1);
        places.take(2);
        places.prove(1);
        CHECK(places.next_evicted() == 2);
        places.prove(2);
        CHECK_FALSE(places.next_evicted().has_value());
        CHECK(places.next_ns() == HalfOpenPlaces::kUntilFreedNs);
        CHECK(places.leave(2));
        CHECK(places.next_ns() == 0);
    }

    TEST_CASE("a handshake that takes too long is late, proven or not") {
        ManualClock clock;
        clock.set(5 * kSecond);
        HalfOpenPlaces places(clock, 8, 32 * kMillisecond);
        CHECK_FALSE(places.late().has_value());
        places.take(1);
        places.prove(1);
        clock.advance(31 * kMillisecond);
        places.take(2);
        CHECK_FALSE(places.late().has_value());
        clock.advance(kMillisecond);
        CHECK(places.late() == 1);
        places.leave(1);
        CHECK_FALSE(places.late().has_value());
    }
}

}  // namespace weir::transport

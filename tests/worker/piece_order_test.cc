// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/peers/piece_order.h"

#include <doctest/doctest.h>

#include "lib/worker/requests/transient.h"

namespace weir::test {

TEST_SUITE("piece_order") {
    TEST_CASE("a push names the one before it, under way or executed") {
        PieceOrder order;
        CHECK(order.predecessor({1, 0}) == 0);
        CHECK(order.sent({1, 0}) == 1);
        CHECK(order.predecessor({2, 0}) == 1);
        CHECK(order.sent({2, 0}) == 2);
        order.ended(1, true);
        order.ended(2, true);
        CHECK(order.predecessor({7, 0}) == 2);
    }

    TEST_CASE("one that was not executed is named no more, and is sent again before those behind") {
        PieceOrder order;
        for (const uint64_t time : {1, 2, 3, 4})
            CHECK(order.sent({time, 0}) == time);
        order.ended(1, true);
        order.ended(2, false);
        CHECK(order.predecessor({2, 0}) == 1);  // 3 and 4 are under way, but come after it
        CHECK(order.sent({2, 0}) == 5);
        order.ended(3, false);
        CHECK(order.predecessor({3, 0}) == 5);
        CHECK(order.sent({3, 0}) == 6);
        order.ended(4, false);
        CHECK(order.predecessor({4, 0}) == 6);
        order.ended(5, true);
        order.ended(6, true);
        CHECK(order.predecessor({4, 0}) == 6);
    }

    TEST_CASE("thousands under way are named in order, and forgotten as they end") {
        PieceOrder order;
        constexpr uint32_t kDepth = 1000;
        for (uint32_t i = 1; i <= 10'000; ++i) {
            REQUIRE(order.predecessor({i, 0}) == i - 1);
            REQUIRE(order.sent({i, 0}) == i);
            if (i > kDepth) order.ended(i - kDepth, true);
        }
        for (uint32_t i = 10'001 - kDepth; i <= 10'000; ++i)
            order.ended(i, true);
        CHECK(order.predecessor({20'000, 0}) == 10'000);
    }

    TEST_CASE("a time that is far from those before has to be told in full") {
        PieceOrder order;
        CHECK_FALSE(order.is_far(PieceOrder::kReach - 1));
        CHECK(order.is_far(PieceOrder::kReach));
        order.set_base(uint64_t{5} << 40);
        CHECK_FALSE(order.is_far((uint64_t{5} << 40) + 1));
        (void)order.sent({(uint64_t{5} << 40) + PieceOrder::kReach - 1, 0});
        CHECK_FALSE(order.is_far((uint64_t{5} << 40) + PieceOrder::kReach));
        CHECK(order.is_far(1));
    }

    TEST_CASE("pieces that were cut again share a time, and are in the order of their positions") {
        PieceOrder order;
        CHECK(order.sent({4, 0}) == 1);
        CHECK(order.sent({5, 10}) == 2);
        CHECK(order.sent({5, 20}) == 3);
        CHECK(order.predecessor({5, 15}) == 2);
        order.ended(1, true);
        order.ended(2, false);
        CHECK(order.predecessor({5, 10}) == 1);
        CHECK(order.sent({5, 10}) == 4);
        order.ended(3, false);
        CHECK(order.predecessor({5, 20}) == 4);
        CHECK(order.sent({5, 20}) == 5);
        order.ended(4, true);
        order.ended(5, true);
        CHECK(order.predecessor({6, 0}) == 5);
    }

    TEST_CASE("after a change of the shard's segments a push names none of those before") {
        PieceOrder order;
        CHECK(order.sent({7, 0}) == 1);
        order.ended(1, true);
        order.begin_anew();
        CHECK(order.predecessor({8, 0}) == 0);
        CHECK(order.sent({3, 1}) == 2);
        order.ended(2, true);
        CHECK(order.predecessor({8, 0}) == 2);
    }

    TEST_CASE("what means that nothing was done is transient, anything else is final") {
        CHECK(transient(Errc::kAgain) == Transient::kAgain);
        CHECK(transient(Errc::kUnknownList) == Transient::kUnknownList);
        CHECK(transient(Errc::kBusy) == Transient::kBusy);
        CHECK(transient(Errc::kStaleEpoch) == Transient::kStaleEpoch);
        for (const Errc final : {Errc::kOk, Errc::kNoMemory, Errc::kPeerLost, Errc::kOutOfRange})
            CHECK_FALSE(transient(final).has_value());
    }
}

}  // namespace weir::test

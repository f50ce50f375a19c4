// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which rows are pinned, which changes wait for them, and when these go on.

#include "lib/server/requests/pins.h"

#include <doctest/doctest.h>

namespace weir::test {
namespace {

wire::FrameHeader push_of(KeyRange keys) {
    wire::FrameHeader header;
    header.kind = wire::Kind::kPush;
    header.flags = wire::kKeysRange | wire::kValuesInline;
    header.first = keys.begin;
    header.count = static_cast<uint32_t>(keys.key_count());
    return header;
}

wire::FrameHeader push_of_list() {
    wire::FrameHeader header;
    header.kind = wire::Kind::kPush;
    header.flags = wire::kKeysInline | wire::kValuesInline;
    header.count = 1;
    return header;
}

}  // namespace

TEST_SUITE("pins") {
    TEST_CASE("a push is stopped by pins of its rows, and a push of a list by any") {
        Pins pins;
        CHECK_FALSE(pins.stop(push_of({0, 100})));
        CHECK_FALSE(pins.stop(push_of_list()));
        pins.pin(1, {10, 20});
        pins.pin(2, {30, 40});
        CHECK(pins.stop(push_of({0, 11})));
        CHECK(pins.stop(push_of({19, 25})));
        CHECK(pins.stop(push_of({39, 50})));
        CHECK_FALSE(pins.stop(push_of({0, 10})));
        CHECK_FALSE(pins.stop(push_of({20, 30})));
        CHECK_FALSE(pins.stop(push_of({40, 41})));
        CHECK(pins.stop(push_of_list()));
    }

    TEST_CASE("the same rows may be pinned twice, and are free after the last unpin only") {
        Pins pins;
        pins.pin(1, {0, 4});
        pins.pin(2, {0, 4});
        CHECK_FALSE(pins.unpin(1));
        CHECK(pins.any());
        CHECK(pins.stop(push_of({3, 4})));
        CHECK(pins.unpin(2));
        CHECK_FALSE(pins.any());
        CHECK_FALSE(pins.stop(push_of({3, 4})));
    }

    TEST_CASE("a write that pinned nothing unpins nothing") {
        Pins pins;
        CHECK_FALSE(pins.unpin(7));
        pins.pin(1, {0, 4});
        CHECK_FALSE(pins.unpin(7));
        CHECK(pins.any());
        CHECK(pins.unpin(1));
        CHECK_FALSE(pins.unpin(1));
    }

    TEST_CASE("a push that was stopped goes on when no row is pinned at all") {
        Pins pins;
        pins.pin(1, {0, 4});
        pins.pin(2, {8, 9});
        CHECK_FALSE(pins.has_waiting());
        pins.hold_push();
        CHECK(pins.has_waiting());
        CHECK_FALSE(pins.may_go_on());
        CHECK_FALSE(pins.unpin(1));
        CHECK_FALSE(pins.may_go_on());
        CHECK(pins.unpin(2));
        CHECK(pins.may_go_on());
        CHECK(pins.take_push());
        CHECK_FALSE(pins.take_push());
        CHECK_FALSE(pins.has_waiting());
        CHECK_FALSE(pins.may_go_on());
    }

    TEST_CASE("a complete iteration waits, and is taken once") {
        Pins pins;
        pins.pin(1, {0, 4});
        CHECK_FALSE(pins.take_iteration());
        pins.hold_iteration();
        CHECK(pins.has_waiting());
        CHECK(pins.unpin(1));
        CHECK(pins.take_iteration());
        CHECK_FALSE(pins.take_iteration());
        CHECK_FALSE(pins.has_waiting());
    }
}

}  // namespace weir::test

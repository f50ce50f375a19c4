// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which rows are pinned, which changes wait for them, and when these go on.

#include "lib/server/pins.h"

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

wire::Frame frame_of(const wire::FrameHeader& header) {
    wire::Frame frame;
    frame.header = header;
    return frame;
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

    TEST_CASE("what waits goes on when no row is pinned at all, held pushes before deferred ones") {
        Pins pins;
        pins.pin(1, {0, 4});
        pins.pin(2, {8, 9});
        CHECK_FALSE(pins.has_waiting());
        pins.defer(5, frame_of(push_of({0, 1})));
        pins.defer(6, frame_of(push_of({1, 2})));
        pins.hold({7, push_of({2, 3}), {}, {}, {}, {}, nullptr, {}}, 11);
        CHECK(pins.has_waiting());
        CHECK_FALSE(pins.may_go_on());
        CHECK_FALSE(pins.unpin(1));
        CHECK_FALSE(pins.may_go_on());  // though the rows of all of them are free
        CHECK(pins.unpin(2));
        CHECK(pins.may_go_on());
        const auto held = pins.take_held();
        REQUIRE(held.size() == 1);
        CHECK(held[0].request.connection == 7);
        CHECK(held[0].ticket == 11);
        CHECK(pins.has_waiting());
        const auto deferred = pins.take_deferred();
        REQUIRE(deferred.size() == 2);
        CHECK(deferred[0].connection == 5);
        CHECK(deferred[1].connection == 6);
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

    TEST_CASE("of a closed connection the deferred pushes are dropped, those held stay") {
        Pins pins;
        pins.pin(1, {0, 4});
        pins.defer(5, frame_of(push_of({0, 1})));
        pins.defer(6, frame_of(push_of({0, 1})));
        pins.hold({5, push_of({2, 3}), {}, {}, {}, {}, nullptr, {}}, 11);
        pins.forget(5);
        CHECK(pins.take_held().size() == 1);
        const auto deferred = pins.take_deferred();
        REQUIRE(deferred.size() == 1);
        CHECK(deferred[0].connection == 6);
    }

    TEST_CASE("a deferred push has a copy of its message") {
        Pins pins;
        std::vector<std::byte> message{std::byte{1}, std::byte{2}, std::byte{3}};
        wire::Frame frame = frame_of(push_of_list());
        frame.keys = std::span(message).first(1);
        frame.values = std::span(message).subspan(1);
        pins.defer(5, frame);
        message.assign(message.size(), std::byte{9});
        const auto deferred = pins.take_deferred();
        REQUIRE(deferred.size() == 1);
        const wire::Frame& kept = deferred[0].frame;
        REQUIRE(kept.keys.size() == 1);
        REQUIRE(kept.values.size() == 2);
        CHECK(kept.keys[0] == std::byte{1});
        CHECK(kept.values[0] == std::byte{2});
        CHECK(kept.values[1] == std::byte{3});
    }
}

}  // namespace weir::test

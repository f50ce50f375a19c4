// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/frame.h"

#include <cstring>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE("frame") {
    using namespace weir::wire;
    using weir::Errc;

    /// A message of a header and a body of `body` bytes, whatever the header says.
    static std::vector<std::byte> message(const FrameHeader& header, size_t body) {
        const std::span<const std::byte> head = bytes_of(header);
        std::vector<std::byte> bytes(head.begin(), head.end());
        bytes.resize(head.size() + body);
        return bytes;
    }

    static FrameHeader push(uint8_t flags, uint32_t count, uint32_t body_bytes) {
        FrameHeader header;
        header.kind = Kind::kPush;
        header.flags = flags;
        header.count = count;
        header.body_bytes = body_bytes;
        return header;
    }

    TEST_CASE("keys and values of a push come out where they are") {
        Frame frame;
        const auto bytes = message(push(kKeysInline | kValuesInline, 3, 36), 36);
        REQUIRE(decode(bytes, frame) == Errc::kOk);
        CHECK(frame.keys.size() == 24);
        CHECK(frame.values.size() == 12);
        CHECK(frame.values.data() == bytes.data() + 48 + 24);
    }

    TEST_CASE("a push from memory has both handles, and no byte more") {
        Frame frame;
        auto bytes = message(push(kKeysRemote | kValuesRemote, 3, 48), 48);
        MemoryHandle keys{1, 24, 2};
        MemoryHandle values{3, 12, 4};
        std::memcpy(bytes.data() + 48, &keys, sizeof keys);
        std::memcpy(bytes.data() + 72, &values, sizeof values);
        REQUIRE(decode(bytes, frame) == Errc::kOk);
        CHECK(frame.values_at.length_bytes == 12);
        keys.length_bytes = 32;  // more than count keys
        std::memcpy(bytes.data() + 48, &keys, sizeof keys);
        CHECK(decode(bytes, frame) == Errc::kProtocol);
    }

    TEST_CASE("wrong magic, kind, reserved bits, lengths and flags are refused") {
        Frame frame;
        const FrameHeader good = push(kKeysRange | kValuesInline, 3, 12);
        REQUIRE(decode(message(good, 12), frame) == Errc::kOk);
        const auto refused = [&](auto change) {
            FrameHeader header = good;
            change(header);
            return decode(message(header, 12), frame) == Errc::kProtocol;
        };
        CHECK(refused([](FrameHeader& h) { h.magic ^= 1; }));
        CHECK(refused([](FrameHeader& h) { h.kind = Kind{0}; }));
        CHECK(refused([](FrameHeader& h) { h.kind = Kind{kKindMax + 1}; }));
        CHECK(refused([](FrameHeader& h) { h.encoding = 128; }));
        CHECK(refused([](FrameHeader& h) { h.encoding = kErases | kWantsValues; }));
        CHECK(refused([](FrameHeader& h) { h.encoding = kErases | kWholeRows; }));
        CHECK(refused([](FrameHeader& h) { h.encoding = kWholeRows | kHasArguments; }));
        CHECK(refused([](FrameHeader& h) { h.encoding = kAsksWritten; }));  // of a push
        CHECK(refused([](FrameHeader& h) { h.encoding = kOutRemote; }));    // and wants no values
        CHECK(refused([](FrameHeader& h) { h.encoding = kWantsValues | kOutRemote; }));  // nowhere
        CHECK(refused([](FrameHeader& h) { h.body_bytes = 11; }));
        CHECK(refused([](FrameHeader& h) { h.body_bytes = 13; }));
        CHECK(refused([](FrameHeader& h) { h.flags |= kKeysKnown; }));
        CHECK(refused([](FrameHeader& h) { h.flags |= kValuesRemote; }));
        CHECK(refused([](FrameHeader& h) { h.flags = kValuesInline; }));
        CHECK(refused([](FrameHeader& h) { h.flags |= kIteration; }));  // which is 0
        CHECK(refused([](FrameHeader& h) { h.flags |= kAggregate; }));  // without an iteration
        CHECK(refused([](FrameHeader& h) { h.count = ~uint32_t{0}; }));
        CHECK(refused([](FrameHeader& h) { h.kind = Kind::kPull; }));  // a pull brings no values
    }

    TEST_CASE("a stamp comes before keys, is not 0, and belongs to no iteration") {
        Frame frame;
        FrameHeader header = push(kKeysInline | kValuesInline, 2, 24);
        const auto with = [&](uint64_t stamp) {
            auto bytes = message(header, 24);
            std::memcpy(bytes.data() + header_bytes(header), &stamp, sizeof stamp);
            return bytes;
        };
        for (const uint8_t encoding : {uint8_t{kHasStamp}, uint8_t{kErases | kHasStamp}}) {
            header.encoding = encoding;
            const auto bytes = with(7);
            REQUIRE(decode(bytes, frame) == Errc::kOk);
            CHECK(frame.stamp == 7);
            CHECK(frame.keys.data() == bytes.data() + 48 + 8);
            CHECK(frame.values.empty());
            CHECK(decode(with(0), frame) == Errc::kProtocol);
            CHECK(decode(with(uint64_t{1} << 32), frame) == Errc::kProtocol);
            header.kind = Kind::kPull;
            CHECK(decode(with(7), frame) == Errc::kProtocol);
            header.kind = Kind::kPush;
            header.flags |= kIteration;
            header.iteration = 1;
            CHECK(decode(with(7), frame) == Errc::kProtocol);
            header.flags &= ~kIteration;
            header.iteration = 0;
        }
        header.encoding = kErases;
        header.body_bytes = 16;
        REQUIRE(decode(message(header, 16), frame) == Errc::kOk);
        CHECK(frame.stamp == 0);
    }

    TEST_CASE("a small push and its answer are a cache line each, with 8 bytes of a ring's") {
        CHECK(message(push(kKeysRange | kValuesInline, 2, 8), 8).size() == 64 - 8);
        CHECK(message(FrameHeader{}, 0).size() == 32);
    }

    TEST_CASE("an iteration travels only where there is one, and reads as 0 where not") {
        Frame frame;
        FrameHeader header = push(kKeysRange | kValuesInline | kAggregate | kIteration, 3, 12);
        header.iteration = uint64_t{7} << 40;
        header.parts = 5;
        const auto with = message(header, 12);
        CHECK(with.size() == 64 + 12);
        REQUIRE(decode(with, frame) == Errc::kOk);
        CHECK(frame.header.iteration == header.iteration);
        CHECK(frame.header.parts == 5);
        CHECK(frame.values.data() == with.data() + 64);
        const auto without = message(push(kKeysRange | kValuesInline, 3, 12), 12);
        CHECK(without.size() == 48 + 12);
        REQUIRE(decode(without, frame) == Errc::kOk);
        CHECK(frame.header.iteration == 0);
        CHECK(frame.header.parts == 0);
        FrameHeader reply;
        reply.request = 9;
        reply.first = 11;
        REQUIRE(decode(message(reply, 0), frame) == Errc::kOk);
        CHECK(frame.header.request == 9);
        CHECK(frame.header.first == 11);
        CHECK(frame.header.table == 0);
        CHECK(frame.header.count == 0);
        reply.reserved2 = 1;
        CHECK(decode(message(reply, 0), frame) == Errc::kProtocol);
        reply.reserved2 = 0;
        reply.encoding = 1;
        CHECK(decode(message(reply, 0), frame) == Errc::kProtocol);
        header.reserved3 = 1;
        CHECK(decode(message(header, 12), frame) == Errc::kProtocol);
        header.reserved3 = 0;
        header.part_status = Errc::kCancelled;  // it has keys
        CHECK(decode(message(header, 12), frame) == Errc::kProtocol);
        FrameHeader empty = push(kKeysRange | kValuesInline | kAggregate | kIteration, 0, 0);
        empty.iteration = 1;
        empty.parts = 1;
        const auto whole = message(empty, 0);
        CHECK(decode(whole, frame) == Errc::kOk);
        CHECK(decode(std::span(whole).first(48), frame) == Errc::kProtocol);
        CHECK(decode(std::span(whole).first(63), frame) == Errc::kProtocol);
    }

    TEST_CASE("a push without keys is refused unless it is a part; a pull may have none") {
        Frame frame;
        for (const uint8_t keys : {kKeysRange, kKeysInline}) {
            FrameHeader header = push(keys | kValuesInline, 0, 0);
            CHECK(decode(message(header, 0), frame) == Errc::kProtocol);
            header.kind = Kind::kPull;
            CHECK(decode(message(header, 0), frame) == Errc::kOk);
            header = push(keys | kValuesInline | kAggregate | kIteration, 0, 0);
            header.iteration = header.parts = 1;
            CHECK(decode(message(header, 0), frame) == Errc::kOk);
        }
    }

    TEST_CASE("a push names the one before it in all 32 bits") {
        Frame frame;
        for (const uint32_t number : {0U, 1U, 0xffffU, 0x10000U, 0xfffffffeU, 0xffffffffU}) {
            FrameHeader header = push(kKeysRange | kValuesInline, 3, 12);
            header.set_predecessor(number);
            header.time = ~number;
            REQUIRE(decode(message(header, 12), frame) == Errc::kOk);
            CHECK(frame.header.predecessor() == number);
            CHECK(frame.header.time == ~number);
        }
    }

    TEST_CASE("a glance sees what a push is about and trusts its length alone") {
        FrameHeader header = push(kKeysRange | kValuesInline, 3, 12);
        header.table = 5;
        header.first = 9;
        const auto whole = message(header, 12);
        FrameHeader seen;
        REQUIRE(glance(whole, seen));
        CHECK(seen.table == 5);
        CHECK(seen.first == 9);
        CHECK(seen.count == 3);
        CHECK_FALSE(glance(std::span(whole).first(47), seen));
        CHECK_FALSE(glance(message(FrameHeader{}, 64), seen));  // a reply
    }

    TEST_CASE("a count that overflows when multiplied is refused") {
        Frame frame;
        const FrameHeader header = push(kKeysInline | kValuesInline, uint32_t{1} << 29, 16);
        CHECK(decode(message(header, 16), frame) == Errc::kProtocol);
    }

    TEST_CASE("every truncation is refused") {
        Frame frame;
        const auto whole = message(push(kKeysInline | kValuesInline, 3, 36), 36);
        for (size_t size = 0; size < whole.size(); ++size) {
            CHECK(decode(std::span(whole).first(size), frame) == Errc::kProtocol);
        }
    }
}

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
        std::vector<std::byte> bytes(sizeof header + body);
        std::memcpy(bytes.data(), &header, sizeof header);
        return bytes;
    }

    static FrameHeader push(uint8_t flags, uint64_t count, uint32_t body_bytes) {
        FrameHeader header;
        header.kind = Kind::kPush;
        header.flags = flags;
        header.width = 1;
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
        CHECK(frame.values.data() == bytes.data() + 64 + 24);
    }

    TEST_CASE("a push from memory has both handles, and no byte more") {
        Frame frame;
        auto bytes = message(push(kKeysRemote | kValuesRemote, 3, 48), 48);
        MemoryHandle keys{1, 24, 2};
        MemoryHandle values{3, 12, 4};
        std::memcpy(bytes.data() + 64, &keys, sizeof keys);
        std::memcpy(bytes.data() + 88, &values, sizeof values);
        REQUIRE(decode(bytes, frame) == Errc::kOk);
        CHECK(frame.values_at.length_bytes == 12);
        keys.length_bytes = 32;  // more than count keys
        std::memcpy(bytes.data() + 64, &keys, sizeof keys);
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
        CHECK(refused([](FrameHeader& h) { h.kind = Kind{13}; }));
        CHECK(refused([](FrameHeader& h) { h.reserved = 1; }));
        CHECK(refused([](FrameHeader& h) { h.reserved2 = 1; }));
        CHECK(refused([](FrameHeader& h) { h.body_bytes = 11; }));
        CHECK(refused([](FrameHeader& h) { h.body_bytes = 13; }));
        CHECK(refused([](FrameHeader& h) { h.flags |= kKeysKnown; }));
        CHECK(refused([](FrameHeader& h) { h.flags |= kValuesRemote; }));
        CHECK(refused([](FrameHeader& h) { h.flags = kValuesInline; }));
        CHECK(refused([](FrameHeader& h) { h.flags |= 128; }));
        CHECK(refused([](FrameHeader& h) { h.flags |= kAggregate; }));  // without an iteration
        CHECK(refused([](FrameHeader& h) { h.count = ~uint64_t{0}; }));
        CHECK(refused([](FrameHeader& h) { h.width = 0; }));
        CHECK(refused([](FrameHeader& h) { h.kind = Kind::kPull; }));  // a pull brings no values
    }

    TEST_CASE("a count that overflows when multiplied is refused") {
        Frame frame;
        const FrameHeader header = push(kKeysInline | kValuesInline, uint64_t{1} << 61, 16);
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

// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/frame.h"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "tests/transport/conformance.h"
#include "transport/tcp/input.h"
#include "transport/tcp/output.h"

namespace {

using namespace weir;
using namespace weir::transport;
using namespace weir::transport::tcp;

std::vector<std::byte> drained(Output& output, size_t piece_bytes) {
    std::vector<std::byte> all;
    while (!output.empty()) {
        std::array<iovec, 3> parts;
        const size_t count = output.next(parts);
        size_t left = piece_bytes;
        for (size_t i = 0; i < count && left > 0; ++i) {
            const size_t now = std::min(left, parts[i].iov_len);
            const auto* const from = static_cast<const std::byte*>(parts[i].iov_base);
            all.insert(all.end(), from, from + now);
            left -= now;
        }
        output.sent(piece_bytes - left);
    }
    return all;
}

}  // namespace

TEST_SUITE("tcp frames") {
    TEST_CASE("what is encoded is decoded") {
        for (const Frame& frame :
             {Frame{FrameType::kMessage, 77, {}}, Frame{FrameType::kRead, 0, {1, 2, 3}},
              Frame{FrameType::kWrite, 0, {~uint64_t{0}, 8, 9}},
              Frame{FrameType::kWriteImmediate, ~0U, {4, 0, 6}}, Frame{FrameType::kReadData, 0, {}},
              Frame{FrameType::kWritten, 3, {}}, Frame{FrameType::kBye, 0, {}}}) {
            const auto bytes = encode(frame);
            CHECK(frame_type(std::span(bytes).first<kHeadBytes>()).value() == frame.type);
            const auto decoded = decode_frame(std::span(bytes).first(head_bytes(frame.type)));
            REQUIRE(decoded.has_value());
            CHECK(*decoded == frame);
        }
    }

    TEST_CASE("bytes that begin no frame are refused") {
        auto bytes = encode({FrameType::kRead, 0, {}});
        for (const int type : {0, 8, 255}) {
            bytes[0] = static_cast<std::byte>(type);
            CHECK(frame_type(std::span(bytes).first<kHeadBytes>()).code() == Errc::kProtocol);
        }
        for (const size_t place : {1, 2, 3}) {
            bytes = encode({FrameType::kMessage, 8, {}});
            bytes[place] = std::byte{1};
            CHECK(frame_type(std::span(bytes).first<kHeadBytes>()).code() == Errc::kProtocol);
        }
        bytes = encode({FrameType::kBye, 1, {}});  // it has no number
        CHECK(decode_frame(std::span(bytes).first(kHeadBytes)).code() == Errc::kProtocol);
        bytes = encode({FrameType::kRead, 0, {}});
        CHECK(decode_frame(std::span(bytes).first(kHeadBytes)).code() == Errc::kProtocol);
        CHECK(decode_frame({}).code() == Errc::kProtocol);
    }

    TEST_CASE("an output sends all in order, in pieces of any size") {
        std::vector<std::byte> memory(1000);
        for (size_t i = 0; i < memory.size(); ++i)
            memory[i] = static_cast<std::byte>(i);
        for (const size_t piece : {1, 7, 64, 5000}) {
            Output output;
            std::vector<std::byte> expected;
            for (size_t i = 0; i < 600; ++i) {
                const auto bytes = std::span<const std::byte>(memory).first(i % 13);
                output.add(bytes);
                expected.insert(expected.end(), bytes.begin(), bytes.end());
                if (i % 3 != 0) continue;
                const auto data = std::span<const std::byte>(memory).subspan(i, i % 50);
                i % 2 == 0 ? output.add_own(data) : output.add_exposed(data, 7);
                expected.insert(expected.end(), data.begin(), data.end());
                expected.resize(expected.size() + padding_of(data.size()));
            }
            CHECK(output.exposed_parts() > 0);
            CHECK(drained(output, piece) == expected);
            CHECK(output.exposed_parts() == 0);
            CHECK(output.copied_bytes() == 0);
        }
    }

    TEST_CASE("an output that is never empty keeps nothing of what was sent") {
        const std::vector<std::byte> some(1000);
        for (const bool with_data : {false, true}) {
            CAPTURE(with_data);
            Output output;
            output.add(some);
            const size_t before = conformance::own_usage().resident_bytes;
            for (size_t i = 0; i < 200'000; ++i) {
                output.add(some);
                if (with_data) output.add_own(some);
                output.sent(some.size() * (with_data ? 2 : 1));
                REQUIRE_FALSE(output.empty());
            }
            if (conformance::kResidentMemoryTells)
                CHECK(conformance::own_usage().resident_bytes < before + (8 << 20));
        }
    }

    TEST_CASE("empty answers to reads count until they are sent") {
        Output output;
        for (size_t i = 0; i < 5; ++i) {
            output.add(Frame{FrameType::kReadData, 0, {}});
            output.add_exposed({}, 7);
        }
        CHECK(output.exposed_parts() == 5);
        std::array<iovec, 16> parts;
        CHECK(output.next(parts) == 10);
        output.sent(kHeadBytes);
        CHECK(output.exposed_parts() == 4);
        output.sent(4 * kHeadBytes - 1);
        CHECK(output.exposed_parts() == 1);
        output.sent(1);
        CHECK(output.exposed_parts() == 0);
        CHECK(output.empty());
    }

    TEST_CASE("an input keeps bytes at their place in the stream modulo 8") {
        Input input(256);
        const auto put = [&](uint64_t direct, size_t bytes) {
            const std::span<std::byte> room = input.room(direct);
            REQUIRE(room.size() >= bytes);
            std::fill_n(room.begin(), bytes, std::byte{1});
            input.received(direct, bytes);
        };
        const auto place = [&] { return reinterpret_cast<uintptr_t>(input.bytes().data()) % 8; };
        put(0, 13);
        input.use(13);
        CHECK(input.empty());
        put(30, 5);  // bytes 43 to 47 of the stream
        CHECK(place() == 43 % 8);
        input.use(2);
        input.compact();
        CHECK(input.bytes().size() == 3);
        CHECK(place() == 45 % 8);
        put(0, 200);
        CHECK(input.bytes().size() == 203);
        CHECK(input.room().size() == 256 - 203 - 45 % 8);
    }
}

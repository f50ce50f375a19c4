// SPDX-License-Identifier: Apache-2.0
#include "lib/consensus/parts.h"

#include <vector>

#include <doctest/doctest.h>

namespace weir::testing {
namespace {

using namespace consensus;

std::vector<std::byte> counted_bytes(size_t count) {
    std::vector<std::byte> bytes(count);
    for (size_t at = 0; at < count; ++at)
        bytes[at] = static_cast<std::byte>(at);
    return bytes;
}

}  // namespace

TEST_SUITE("parts") {
    TEST_CASE("messages of any length arrive whole, one after the other") {
        PartJoiner joiner(100'000);
        for (const size_t size : {0, 1, 91, 92, 93, 184, 185, 100'000}) {
            const std::vector<std::byte> message = counted_bytes(size);
            for (const std::vector<std::byte>& part : cut_message(message, 100)) {
                CHECK(part.size() <= 100);
                CHECK_FALSE(joiner.message());
                REQUIRE(joiner.take(part));
            }
            CHECK(joiner.message() == message);
            CHECK_FALSE(joiner.message());
        }
    }

    TEST_CASE("a message that is too long, and what is no part, is refused") {
        PartJoiner joiner(1000);
        const std::vector<std::vector<std::byte>> parts = cut_message(counted_bytes(1001), 1000);
        REQUIRE(parts.size() == 2);
        CHECK(joiner.take(parts[0]));
        CHECK_FALSE(joiner.take(parts[1]));
        PartJoiner other(1000);
        CHECK_FALSE(other.take({}));
        CHECK_FALSE(other.take(counted_bytes(8)));
        CHECK_FALSE(other.take(encode_greeting({1, 2, 3})));
        std::vector<std::byte> wrong = cut_message(counted_bytes(4), 100)[0];
        wrong[5] = std::byte{1};
        CHECK_FALSE(other.take(wrong));
    }

    TEST_CASE("a greeting says who sends to whom, and nothing else is one") {
        const std::vector<std::byte> bytes = encode_greeting({1, 2, 3});
        CHECK(decode_greeting(bytes) == Greeting{1, 2, 3});
        for (size_t size = 0; size < bytes.size(); ++size)
            CHECK_FALSE(decode_greeting(std::span(bytes).first(size)));
        CHECK_FALSE(decode_greeting(cut_message(counted_bytes(24), 100)[0]));
    }
}

}  // namespace weir::testing

// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/zeros.h"

#include <bit>
#include <limits>

#include <doctest/doctest.h>

#include "tests/filter/bytes.h"
#include "tests/seed.h"

TEST_SUITE("zeros") {
    using namespace weir;
    using namespace weir::testing;

    namespace {

    Bytes encoded(const Bytes& values, size_t value_bytes) {
        Bytes body(zeros_bytes_max(values.size() / value_bytes, value_bytes));
        body.resize(encode_zeros(values, value_bytes, body));
        body.shrink_to_fit();
        return body;
    }

    /// The values of this body, or nothing.
    Bytes decoded(const Bytes& body, size_t value_bytes, size_t count) {
        Bytes values(count * value_bytes, std::byte{0xee});
        const Bytes before = values;
        if (decode_zeros(body, value_bytes, values)) return values;
        CHECK(values == before);
        return {};
    }

    }  // namespace

    TEST_CASE("any values come back, and take a bit and those that are not zero") {
        WEIR_TEST_SEED(seed, 21);
        Random random(seed);
        for (const size_t value_bytes : {1, 2, 4, 8}) {
            for (const size_t count : kCounts) {
                for (const uint64_t percent : kPercents) {
                    const Bytes values = sparse_values(random, count, value_bytes, percent);
                    const Bytes body = encoded(values, value_bytes);
                    if (percent == 0) CHECK(body.size() == bitmap_bytes(count));
                    if (percent == 100) CHECK(body.size() == zeros_bytes_max(count, value_bytes));
                    CHECK(decoded(body, value_bytes, count) == values);
                }
            }
        }
    }

    TEST_CASE("-0 and the payloads of NaNs come back") {
        const auto nan = std::bit_cast<float>(0xffc1'2345U);
        const auto signaling = std::bit_cast<float>(0x7f80'0001U);
        const Bytes values = bytes_of<float>({0, -0.0F, nan, 0, signaling, 1e-45F, 0});
        const Bytes body = encoded(values, 4);
        CHECK(body.size() == 1 + 4 * 4);
        CHECK(body[0] == std::byte{0b011'0110});
        CHECK(decoded(body, 4, 7) == values);
    }

    TEST_CASE("a body of other values is refused") {
        const Bytes values = bytes_of<float>({1, 0, 2, 0, 0, 3, 0, 0, 4, 0});
        const Bytes body = encoded(values, 4);
        REQUIRE(decoded(body, 4, 10) == values);
        Bytes wrong = body;
        SUBCASE("a byte is missing") {
            wrong.pop_back();
        }
        SUBCASE("a byte is left") {
            wrong.push_back(std::byte{0});
        }
        SUBCASE("a value is left") {
            wrong.resize(wrong.size() + 4);
        }
        SUBCASE("a bit is missing") {
            wrong[0] &= ~std::byte{1};
        }
        SUBCASE("there is one bit more") {
            wrong[0] |= std::byte{2};
        }
        SUBCASE("a bit behind the last one") {
            wrong[1] |= std::byte{0x80};
            wrong.resize(wrong.size() + 4);
        }
        SUBCASE("the bitmap ends early") {
            wrong.resize(1);
        }
        SUBCASE("nothing") {
            wrong.clear();
        }
        wrong.shrink_to_fit();
        CHECK(decoded(wrong, 4, 10).empty());
        Bytes room(40);
        CHECK(decode_zeros(wrong, 4, room).code() == Errc::kProtocol);
    }

    TEST_CASE("a body of no values is empty") {
        CHECK(encoded({}, 8).empty());
        CHECK(decode_zeros({}, 8, {}));
        CHECK_FALSE(decode_zeros(Bytes(1), 8, {}));
    }
}

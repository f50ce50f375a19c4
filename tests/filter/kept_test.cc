// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/kept.h"

#include <algorithm>
#include <limits>

#include <doctest/doctest.h>

#include "tests/filter/bytes.h"
#include "tests/seed.h"

TEST_SUITE("kept") {
    using namespace weir;
    using namespace weir::testing;

    namespace {

    Bytes random_bytes(Random& random, size_t size) {
        Bytes bytes(size);
        for (std::byte& byte : bytes)
            byte = static_cast<std::byte>(random());
        return bytes;
    }

    }  // namespace

    TEST_CASE("kept rows of any size come back with their indices") {
        WEIR_TEST_SEED(seed, 31);
        Random random(seed);
        for (const size_t row_bytes : {1, 2, 3, 4, 8, 12, 16, 32, 40, 64, 100}) {
            for (const size_t count : kCounts) {
                for (const uint64_t percent : kPercents) {
                    CAPTURE(row_bytes);
                    CAPTURE(count);
                    const Bytes rows = random_bytes(random, count * row_bytes);
                    const Bytes bitmap = random_bitmap(random, count, percent);
                    Bytes body(kept_bytes(bitmap, row_bytes));
                    encode_kept(rows, row_bytes, bitmap, body);
                    const Result<KeptRows> kept = decode_kept(body, count, row_bytes);
                    REQUIRE(kept);
                    CHECK(std::ranges::equal(kept->bitmap, bitmap));
                    std::vector<uint32_t> indices(kept->row_count);
                    kept->list(indices);
                    REQUIRE(kept->rows.size() == indices.size() * row_bytes);
                    size_t at = 0;
                    for (const uint32_t i : indices) {
                        CHECK(bit_of(bitmap, i));
                        CHECK(
                            std::ranges::equal(kept->rows.subspan(at, row_bytes),
                                               std::span(rows).subspan(i * row_bytes, row_bytes)));
                        at += row_bytes;
                    }
                }
            }
        }
    }

    TEST_CASE("a body of other rows is refused") {
        const Bytes bitmap{std::byte{0x81}, std::byte{0x02}};
        Bytes body(kept_bytes(bitmap, 12));
        encode_kept(Bytes(10 * 12, std::byte{7}), 12, bitmap, body);
        REQUIRE(decode_kept(body, 10, 12));
        Bytes wrong = body;
        SUBCASE("a byte is missing") {
            wrong.pop_back();
        }
        SUBCASE("a byte is left") {
            wrong.push_back(std::byte{0});
        }
        SUBCASE("a row is left") {
            wrong.resize(wrong.size() + 12);
        }
        SUBCASE("a bit is missing") {
            wrong[0] &= ~std::byte{1};
        }
        SUBCASE("there is one bit more") {
            wrong[0] |= std::byte{2};
        }
        SUBCASE("a bit behind the last one, with its row") {
            wrong[1] |= std::byte{0x04};
            wrong.resize(wrong.size() + 12);
        }
        SUBCASE("the bitmap ends early") {
            wrong.resize(1);
        }
        SUBCASE("nothing") {
            wrong.clear();
        }
        wrong.shrink_to_fit();
        CHECK(decode_kept(wrong, 10, 12).code() == Errc::kProtocol);
    }

    TEST_CASE("counts and sizes that overflow are refused") {
        const Bytes body{std::byte{0x03}, std::byte{1}, std::byte{2}};
        constexpr size_t kMost = std::numeric_limits<size_t>::max();
        CHECK_FALSE(decode_kept(body, kMost, 1));
        CHECK_FALSE(decode_kept(body, 8, kMost));
        CHECK_FALSE(decode_kept(body, 8, kMost / 2 + 2));  // twice that is 2
        CHECK(decode_kept(body, 8, 1));
    }

    TEST_CASE("a body of no rows is empty") {
        CHECK(kept_bytes({}, 4) == 0);
        CHECK(decode_kept({}, 0, 4));
        CHECK_FALSE(decode_kept(Bytes(1), 0, 4));
    }
}

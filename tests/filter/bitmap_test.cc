// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/bitmap.h"

#include <vector>

#include <doctest/doctest.h>

#include "tests/filter/bytes.h"
#include "tests/seed.h"

TEST_SUITE("bitmap") {
    using namespace weir;
    using namespace weir::testing;

    TEST_CASE("a bitmap has a byte for eight things, and its last byte unused bits") {
        CHECK(bitmap_bytes(0) == 0);
        CHECK(bitmap_bytes(1) == 1);
        CHECK(bitmap_bytes(8) == 1);
        CHECK(bitmap_bytes(9) == 2);
        CHECK(bitmap_bytes(~size_t{0}) == (size_t{1} << 61));
        CHECK(unused_bits_are_zero({}, 0));
        CHECK(unused_bits_are_zero(Bytes{std::byte{0x07}}, 3));
        CHECK_FALSE(unused_bits_are_zero(Bytes{std::byte{0x08}}, 3));
        CHECK(unused_bits_are_zero(Bytes{std::byte{0xff}}, 8));
        CHECK_FALSE(unused_bits_are_zero(Bytes{std::byte{0}, std::byte{0x80}}, 15));
    }

    TEST_CASE("bits are counted and listed the same with any instructions") {
        WEIR_TEST_SEED(seed, 11);
        Random random(seed);
        for (const size_t count : kCounts) {
            for (const uint64_t percent : kPercents) {
                const Bytes bitmap = random_bitmap(random, count, percent);
                std::vector<uint32_t> expected;
                for (size_t i = 0; i < count; ++i) {
                    if (bit_of(bitmap, i)) expected.push_back(static_cast<uint32_t>(i));
                }
                CHECK(count_bits(bitmap) == expected.size());
                std::vector<uint32_t> called;
                for_each_bit(bitmap, [&](size_t i) {
                    CHECK(has_bit(bitmap, i));
                    called.push_back(static_cast<uint32_t>(i));
                });
                CHECK(called == expected);
                for (const Simd simd : all_simd()) {
                    std::vector<uint32_t> indices(expected.size());
                    list_bits(bitmap, indices, simd);
                    CHECK(indices == expected);
                }
            }
        }
    }

    TEST_CASE("a bitmap of all keys has no bit behind the last one") {
        std::vector<std::byte> kept;
        for (size_t count = 0; count < 200; ++count) {
            reset_bits(kept, count, true);
            CHECK(kept.size() == (count + 7) / 8);
            CHECK(count_bits(kept) == count);
            for (size_t i = 0; i < count; ++i)
                CHECK(has_bit(kept, i));
            reset_bits(kept, count);
            CHECK(count_bits(kept) == 0);
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/pack/pack.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "tests/filter/bytes.h"
#include "tests/seed.h"

TEST_SUITE("pack") {
    using namespace weir;
    using namespace weir::testing;

    namespace {

    /// The values of these bits, one by one.
    Bytes packed_plainly(const Bytes& values, size_t value_bytes, const Bytes& bitmap) {
        Bytes packed;
        for (size_t i = 0; i < values.size() / value_bytes; ++i) {
            const auto value = std::span(values).subspan(i * value_bytes, value_bytes);
            if (bit_of(bitmap, i)) packed.insert(packed.end(), value.begin(), value.end());
        }
        return packed;
    }

    Bytes nonzeros_plainly(const Bytes& values, size_t value_bytes) {
        const size_t count = values.size() / value_bytes;
        Bytes bitmap(bitmap_bytes(count));
        for (size_t i = 0; i < count; ++i) {
            const auto value = std::span(values).subspan(i * value_bytes, value_bytes);
            if (std::ranges::any_of(value, [](std::byte b) { return b != std::byte{0}; }))
                bitmap[i / 8] |= std::byte{1} << (i % 8);
        }
        return bitmap;
    }

    }  // namespace

    TEST_CASE("values that are not zero are packed and expanded the same with any instructions") {
        WEIR_TEST_SEED(seed, 12);
        Random random(seed);
        for (const size_t value_bytes : {1, 2, 4, 8}) {
            for (const size_t count : kCounts) {
                for (const uint64_t percent : kPercents) {
                    const Bytes values = sparse_values(random, count, value_bytes, percent);
                    const Bytes wanted_bitmap = nonzeros_plainly(values, value_bytes);
                    const Bytes wanted = packed_plainly(values, value_bytes, wanted_bitmap);
                    for (const Simd simd : all_simd()) {
                        CAPTURE(value_bytes);
                        CAPTURE(count);
                        CAPTURE(static_cast<int>(simd));
                        Bytes bitmap(bitmap_bytes(count), std::byte{0xee});
                        Bytes packed(values.size());
                        packed.resize(
                            pack_nonzeros(values, value_bytes, bitmap.data(), packed, simd));
                        packed.shrink_to_fit();
                        CHECK(bitmap == wanted_bitmap);
                        CHECK(packed == wanted);
                        Bytes expanded(values.size(), std::byte{0xee});
                        expand_values(bitmap.data(), packed, value_bytes, expanded, simd);
                        CHECK(expanded == values);
                    }
                }
            }
        }
    }

    TEST_CASE("chosen values fill their room, and no byte behind it") {
        WEIR_TEST_SEED(seed, 13);
        Random random(seed);
        for (const size_t value_bytes : {1, 2, 4, 8}) {
            for (const size_t count : kCounts) {
                for (const uint64_t percent : kPercents) {
                    const Bytes values = sparse_values(random, count, value_bytes, 50);
                    const Bytes bitmap = random_bitmap(random, count, percent);
                    const Bytes wanted = packed_plainly(values, value_bytes, bitmap);
                    for (const Simd simd : all_simd()) {
                        Bytes room(wanted.size() + 1, std::byte{0xee});
                        const auto packed = std::span(room).first(wanted.size());
                        CHECK(pack_chosen(values, value_bytes, bitmap.data(), packed, simd) ==
                              wanted.size());
                        CHECK(std::ranges::equal(packed, wanted));
                        CHECK(room.back() == std::byte{0xee});
                    }
                }
            }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/pack/pack_rows.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "lib/base/check.h"
#include "lib/filter/bitmap.h"
#include "lib/filter/pack/pack.h"

namespace weir {
namespace {

constexpr size_t kWordRows = 64;

/// Rows of a size that the compiler knows: each is a few vectors.
template <size_t kRowBytes>
void pack_rows_of(std::span<const std::byte> rows, std::span<const std::byte> bitmap,
                  std::byte* packed) noexcept {
    for (size_t w = 0; w < bit_words(bitmap); ++w) {
        const std::byte* const from = rows.data() + w * kWordRows * kRowBytes;
        for (uint64_t word = bit_word(bitmap, w); word != 0; word &= word - 1) {
            std::memcpy(packed, from + static_cast<size_t>(std::countr_zero(word)) * kRowBytes,
                        kRowBytes);
            packed += kRowBytes;
        }
    }
}

/// Rows of any size: those that lie side by side are copied at once.
void pack_runs(std::span<const std::byte> rows, size_t row_bytes, std::span<const std::byte> bitmap,
               std::byte* packed) noexcept {
    for (size_t w = 0; w < bit_words(bitmap); ++w) {
        const std::byte* const from = rows.data() + w * kWordRows * row_bytes;
        uint64_t word = bit_word(bitmap, w);
        while (word != 0) {
            const auto begin = static_cast<size_t>(std::countr_zero(word));
            const auto run = static_cast<size_t>(std::countr_one(word >> begin));
            std::memcpy(packed, from + begin * row_bytes, run * row_bytes);
            packed += run * row_bytes;
            word = begin + run == kWordRows ? 0 : word >> (begin + run) << (begin + run);
        }
    }
}

}  // namespace

void pack_rows(std::span<const std::byte> rows, size_t row_bytes, std::span<const std::byte> bitmap,
               std::span<std::byte> packed) noexcept {
    WEIR_CHECK(row_bytes != 0 && rows.size() % row_bytes == 0);
    WEIR_CHECK(bitmap.size() == bitmap_bytes(rows.size() / row_bytes));
    WEIR_CHECK(unused_bits_are_zero(bitmap, rows.size() / row_bytes));
    WEIR_CHECK(packed.size() == count_bits(bitmap) * row_bytes);
    switch (row_bytes) {
        case 1:
        case 2:
        case 4:
        case 8: pack_chosen(rows, row_bytes, bitmap.data(), packed); break;
        case 16: pack_rows_of<16>(rows, bitmap, packed.data()); break;
        case 32: pack_rows_of<32>(rows, bitmap, packed.data()); break;
        case 64: pack_rows_of<64>(rows, bitmap, packed.data()); break;
        default: pack_runs(rows, row_bytes, bitmap, packed.data()); break;
    }
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Bitmaps of bodies: a bit for each of `count` things. Bit i % 8 of byte i / 8 is that of thing i;
/// the bits behind the last one are 0.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "lib/filter/simd.h"

namespace weir {

// Thread: any; do not block or allocate

[[nodiscard]] constexpr size_t bitmap_bytes(size_t count) noexcept {
    return count / 8 + static_cast<size_t>(count % 8 != 0);
}

/// Whether every bit behind the last of `count` is 0. Shape: bitmap.size() == bitmap_bytes(count)
[[nodiscard]] constexpr bool unused_bits_are_zero(std::span<const std::byte> bitmap,
                                                  size_t count) noexcept {
    return count % 8 == 0 || (bitmap.back() >> count % 8) == std::byte{0};
}

/// The number of bits that are 1.
[[nodiscard]] size_t count_bits(std::span<const std::byte> bitmap) noexcept;

/// Writes the index of each bit that is 1, ascending.
///
/// Shape:   indices.size() == count_bits(bitmap); the bitmap has at most 2^32 bits
void list_bits(std::span<const std::byte> bitmap, std::span<uint32_t> indices,
               Simd simd = best_simd()) noexcept;

[[nodiscard]] inline bool has_bit(std::span<const std::byte> bitmap, size_t i) noexcept {
    return (std::to_integer<unsigned>(bitmap[i / 8]) >> i % 8 & 1U) != 0;
}

inline void set_bit(std::span<std::byte> bitmap, size_t i) noexcept {
    bitmap[i / 8] |= static_cast<std::byte>(1U << i % 8);
}

/// Makes it the bitmap of so many things, with none of the bits, or all.
inline void reset_bits(std::vector<std::byte>& bitmap, size_t count, bool all = false) {
    bitmap.assign(bitmap_bytes(count), all ? std::byte{0xff} : std::byte{0});
    if (all && count % 8 != 0) bitmap.back() = static_cast<std::byte>((1U << count % 8) - 1);
}

/// Bits 64 * word to 64 * word + 63, zeros behind the end.
[[nodiscard]] inline uint64_t bit_word(std::span<const std::byte> bitmap, size_t word) noexcept {
    uint64_t bits = 0;
    const size_t begin = 8 * word;
    std::memcpy(&bits, bitmap.data() + begin, std::min<size_t>(8, bitmap.size() - begin));
    return bits;
}

[[nodiscard]] inline size_t bit_words(std::span<const std::byte> bitmap) noexcept {
    return (bitmap.size() + 7) / 8;
}

/// Calls `function(i)` for each bit that is 1, in ascending order.
template <class Function>
void for_each_bit(std::span<const std::byte> bitmap, Function&& function) {
    for (size_t word = 0; word < bit_words(bitmap); ++word) {
        for (uint64_t bits = bit_word(bitmap, word); bits != 0; bits &= bits - 1)
            function(64 * word + static_cast<size_t>(std::countr_zero(bits)));
    }
}

}  // namespace weir

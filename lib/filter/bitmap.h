// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Bitmaps of bodies: a bit for each of `count` things. Bit i % 8 of byte i / 8 is that of thing i;
/// the bits behind the last one are 0.

#include <cstddef>
#include <cstdint>
#include <span>

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

}  // namespace weir

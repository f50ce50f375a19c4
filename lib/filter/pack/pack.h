// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Packs the chosen ones of many small values side by side, and expands them again. Bit i % 8 of
/// byte i / 8 of a bitmap is that of value i.

#include <cstddef>
#include <span>

#include "lib/filter/simd.h"

namespace weir {

// value_bytes: 1, 2, 4 or 8. Nothing needs to be aligned. Bitmaps have bitmap_bytes(values).
// Thread: any; do not block or allocate

/// Packs the values that have a bit set, and sets their bits of `bitmap`; all others are 0. A float
/// of -0 has a bit set.
///
/// Shape:   packed.size() >= values.size()
/// Returns: the bytes packed
size_t pack_nonzeros(std::span<const std::byte> values, size_t value_bytes, std::byte* bitmap,
                     std::span<std::byte> packed, Simd simd = best_simd()) noexcept;

/// Packs the values whose bits are set.
///
/// Shape:   packed.size() >= bits set * value_bytes; bits behind the last value are 0
/// Returns: the bytes packed
size_t pack_chosen(std::span<const std::byte> values, size_t value_bytes, const std::byte* bitmap,
                   std::span<std::byte> packed, Simd simd = best_simd()) noexcept;

/// Fills `values` with the packed ones where bits are set, and with zeros elsewhere.
///
/// Shape:   packed.size() == bits set * value_bytes; bits behind the last value are 0
void expand_values(const std::byte* bitmap, std::span<const std::byte> packed, size_t value_bytes,
                   std::span<std::byte> values, Simd simd = best_simd()) noexcept;

}  // namespace weir

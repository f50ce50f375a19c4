// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The codec *integers*: counts, rounded values and the like in few bits. Values are taken in blocks
/// of 64 (the last may be shorter). Where each value of a block is, to the bit, an integer times the
/// same power of two, and the integers lie close together, the block is
///
///   bits (1 byte, at most 56), scale (2 bytes, signed), reference (4 or 8 bytes), and 64 offsets
///
/// Each offset has `bits` bits, the lowest first; those behind the last offset are 0. A value is
///
///   of a floating type   (reference + offset) * 2^scale    never -0, subnormal, infinite or NaN
///   of an integer type   reference + (offset << scale)
///
/// Else, and where that is no shorter, the block is kRawBlock (1 byte) and the values as they are.

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/result.h"
#include "lib/filter/simd.h"
#include "lib/key/value_type.h"

namespace weir {

inline constexpr size_t kIntegerBlock = 64;
inline constexpr uint8_t kRawBlock = 0xff;

// `type` is none of the narrow ones. Nothing needs to be aligned.
// Thread: any; do not block or allocate, but for the text of an error

/// Room for the body of any such values: a byte a block more than these.
[[nodiscard]] constexpr size_t integers_bytes_max(ValueType type, size_t value_count) noexcept {
    return value_count * size_of(type) + (value_count + kIntegerBlock - 1) / kIntegerBlock;
}

/// No body of so many values has fewer: before there is room for them.
[[nodiscard]] constexpr size_t integers_bytes_min(size_t value_count) noexcept {
    return (value_count + kIntegerBlock - 1) / kIntegerBlock * (1 + sizeof(uint32_t));
}

/// Shape:   body.size() >= integers_bytes_max() of these values
/// Returns: the bytes of `body` that were used
[[nodiscard]] size_t encode_integers(ValueType type, std::span<const std::byte> values,
                                     std::span<std::byte> body, Simd simd = best_simd()) noexcept;

/// Fills `values`, whose number is known, from a body that somebody sent.
///
/// Errors:  kProtocol if it is no body of so many values; they are any then
Status decode_integers(ValueType type, std::span<const std::byte> body, std::span<std::byte> values,
                       Simd simd = best_simd());

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Floats, stochastically rounded to few bits, as they travel; and back.
///
/// Fixed point: the exponents of the scales, a byte for each block of 64 values (the last may be
/// shorter), then the integers of all values, each in 1, 2 or 4 bytes, the lowest first. A value is
/// its integer times 2^(exponent - 127). Exponent 0: all values are 0. A power of two, because then
/// all that is computed is exact: the mean over the draws is the value itself (but for 2^-24 of a
/// step), what a decoder makes of it is the same everywhere, and so is the rest that is added to
/// the next push. It costs at most a bit of what another scale would keep. 16-bit floats: 2 bytes
/// each.

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/filter/select/round_form.h"

namespace weir::filter {

inline constexpr size_t kRoundBlock = 64;

/// Values of this size and above are refused: with scales for these, hostile integers could be
/// infinite.
inline constexpr float kRoundedMax = 0x1p126F;

/// Bytes of so many values.
[[nodiscard]] constexpr size_t rounded_bytes(RoundForm form, size_t count) noexcept {
    const size_t blocks = (count + kRoundBlock - 1) / kRoundBlock;
    return (is_fixed(form) ? blocks : 0) + count * value_bytes(form);
}

/// Rounds each value to one of the two closest, with a probability that makes its mean the value.
/// The same `seed` draws the same. False: a value is NaN, infinite, or too great for the form
/// (65504, or kRoundedMax); `bytes` is of no use.
///
/// Shape:  bytes.size() == rounded_bytes(form, values.size())
/// Thread: any; does not block or allocate
[[nodiscard]] bool round_values(RoundForm form, std::span<const float> values, uint64_t seed,
                                std::span<std::byte> bytes) noexcept;

/// What round_values() made, or any bytes. Every value becomes finite. False: they are not of this
/// form and count: another length, or a value or scale that could be infinite or NaN; `values` is
/// of no use.
[[nodiscard]] bool unround_values(RoundForm form, std::span<const std::byte> bytes,
                                  std::span<float> values) noexcept;

}  // namespace weir::filter

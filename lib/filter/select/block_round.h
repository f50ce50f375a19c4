// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Floats, stochastically rounded to ones that take few bits. The codecs integers and halves make
/// these few bytes of them.
///
/// Fixed point: 64 values (the last ones may be fewer) are integers of 1, 2 or 4 bytes times the same
/// power of two. A power of two, because then all that is computed is exact: the mean over the draws
/// is the value itself (but for 2^-24 of a step), the integers can be had from the floats again, and
/// so can the rest that is added to the next push. It costs at most a bit of what another scale would
/// keep. Zeros have no sign.

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/filter/select/round_form.h"

namespace weir {

inline constexpr size_t kRoundBlock = 64;

/// Values of this size and above are refused: they could become infinite.
inline constexpr float kRoundedMax = 0x1p126F;

/// Rounds each value to one of the two closest of the form, with a probability that makes its mean
/// the value. The same `seed` draws the same. False: a value is NaN, infinite, or too great for the
/// form (65504, or kRoundedMax); `rounded` is of no use.
///
/// Shape:  rounded.size() == values.size(); apart from each other
/// Thread: any; does not block or allocate
[[nodiscard]] bool round_values(RoundForm form, std::span<const float> values, uint64_t seed,
                                std::span<float> rounded) noexcept;

}  // namespace weir

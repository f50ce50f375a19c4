// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Many floats at once to narrow values and back.

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/key/narrow_float.h"
#include "lib/key/value_type.h"

namespace weir {

// `type`: a narrow one. Narrow values need not be aligned.
// Thread: any; do not block or allocate

/// Exact. Shape: `narrow` has 2 bytes for each float
void widen(ValueType type, std::span<const std::byte> narrow, float* floats) noexcept;

/// To the nearest. Shape: as widen()
void narrow_to_nearest(ValueType type, std::span<const float> floats, std::byte* narrow) noexcept;

/// Stochastically. The same `seed` draws the same. Shape: as widen()
void narrow_at_random(ValueType type, std::span<const float> floats, std::byte* narrow,
                      uint64_t seed) noexcept;

}  // namespace weir

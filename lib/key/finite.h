// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// all_finite: whether no value is a NaN or an infinity.

#include <cstddef>
#include <span>

#include "lib/key/value_type.h"

namespace weir {

[[nodiscard]] bool all_finite(std::span<const float> values) noexcept;
[[nodiscard]] bool all_finite(std::span<const double> values) noexcept;

/// The same for `value_count` values of `type`, which are aligned for it. Integers are always
/// finite.
[[nodiscard]] bool all_finite(ValueType type, const std::byte* values, size_t value_count) noexcept;

}  // namespace weir

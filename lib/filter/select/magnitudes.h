// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// magnitudes: how much rows would change a table: the greatest size of their values.

#include <cstddef>
#include <span>

#include "lib/filter/select/selector.h"

namespace weir {

/// Writes the greatest |value| of each row. Sizes of 64-bit integers are rounded to the nearest
/// double.
/// Shape:  `values` has a row for each of `greatest`, aligned for its type
/// Thread: any; does not block or allocate
void magnitudes(const RowKind& rows, const std::byte* values, std::span<double> greatest) noexcept;

}  // namespace weir

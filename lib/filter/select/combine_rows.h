// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Combines a later push to a row with an earlier one that did not travel, as servers combine those
/// of several workers.

#include <cstddef>

#include "lib/filter/select/selector.h"

namespace weir {

/// Has `later` become both: the values of `earlier`, combined with its own. `rows` say how; not
/// kMean.
/// Shape:  a row each, aligned for the type of `rows`, apart from each other
/// Thread: any; does not block or allocate
using CombineRow = void (*)(const std::byte* earlier, std::byte* later, size_t width);

[[nodiscard]] CombineRow combine_row_of(const RowKind& rows) noexcept;

}  // namespace weir

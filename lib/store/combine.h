// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Kernels that combine what several workers pushed to the same rows.

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/key/value_type.h"
#include "lib/store/row_store.h"
#include "lib/store/rules/rule.h"

namespace weir {

/// One accumulator row for each row of the table, and a bit per row: set if a push
/// has touched the row since the rule last ran.
struct CombineTarget {
    RowView accumulators;
    uint64_t* touched = nullptr;
    uint32_t values_per_row = 1;
};

/// Combines pushed values with the rows from first_row on, or stores them in rows that are
/// untouched. The pushed values lie side by side.
using CombineRun = void (*)(const CombineTarget& target, uint32_t first_row, size_t row_count,
                            const std::byte* pushed);
/// The same for any rows; `pushed` has the same order.
using CombineRows = void (*)(const CombineTarget& target, std::span<const uint32_t> rows,
                             const std::byte* pushed);

struct CombineKernels {
    CombineRun run = nullptr;
    CombineRows rows = nullptr;
};

[[nodiscard]] CombineKernels combine_kernels(Combine combine, ValueType type) noexcept;

}  // namespace weir

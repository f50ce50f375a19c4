// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Combining what several workers pushed to the same rows.

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/key/value_type.h"
#include "lib/store/row_store.h"
#include "lib/store/rule.h"

namespace weir {

/// Accumulators, one row for each of the table's, and a bit per row: touched since they were
/// applied.
struct CombineTarget {
    RowView accumulators;
    uint64_t* touched = nullptr;
    uint32_t values_per_row = 1;
};

/// Stores (if untouched) or combines the rows first_row.., whose pushed values lie side by side.
using CombineRun = void (*)(const CombineTarget& target, uint32_t first_row, size_t row_count,
                            const std::byte* pushed);
/// The same for rows anywhere.
using CombineRows = void (*)(const CombineTarget& target, std::span<const uint32_t> rows,
                             const std::byte* pushed);

struct CombineKernels {
    CombineRun run = nullptr;
    CombineRows rows = nullptr;
};

[[nodiscard]] CombineKernels combine_kernels(Combine combine, ValueType type) noexcept;

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Row numbers to bytes: gathering scattered rows, and finding runs among them.

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/store/row_store.h"

namespace weir {

/// Copies the first `bytes` of each row of `view` to `out`, one after the other; kNoRow copies
/// `missing`. `bytes` is a multiple of 4. `view` must have a row if one of `rows` is not kNoRow.
void gather_rows(const RowView& view, std::span<const uint32_t> rows, size_t bytes,
                 const std::byte* missing, std::byte* out) noexcept;

/// How many of `rows`, from the first on, are r, r+1, r+2 ... (1 or more; 0 of none; kNoRow ends
/// it).
[[nodiscard]] size_t consecutive_rows(std::span<const uint32_t> rows) noexcept;

}  // namespace weir

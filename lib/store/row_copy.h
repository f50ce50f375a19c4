// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// copy_rows: copies the values of scattered rows side by side. consecutive_rows: finds runs of
/// rows.

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/store/row_store.h"

namespace weir {

/// Copies the first `bytes` of each row of `view` to `out`, one after the other; kNoRow copies
/// `missing`. `view` must have a row if one of `rows` is not kNoRow.
void copy_rows(const RowView& view, std::span<const uint32_t> rows, size_t bytes,
               const std::byte* missing, std::byte* out) noexcept;

/// The same of a run, in which no row is missing.
void copy_run(const RowView& view, RowStore::Run run, size_t bytes, std::byte* out) noexcept;

/// Copies `bytes` from `in` to each row of `view`, one after the other.
void put_rows(const RowView& view, std::span<const uint32_t> rows, size_t bytes,
              const std::byte* in) noexcept;

/// How many of `rows`, from the first on, are r, r+1, r+2 ... kNoRow ends the run. 0 if there are
/// no rows, else at least 1.
[[nodiscard]] size_t consecutive_rows(std::span<const uint32_t> rows) noexcept;

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// pack_rows: the rows of a list or range that are kept, side by side.

#include <cstddef>
#include <span>

namespace weir {

/// Copies those of the rows whose bits are set.
///
/// Shape:   row_bytes > 0; bitmap.size() == bitmap_bytes(rows), unused bits 0; packed.size() is that of
///          the rows that are kept. Nothing needs to be aligned; `packed` is apart from the others
/// Thread:  any; does not block or allocate
void pack_rows(std::span<const std::byte> rows, size_t row_bytes, std::span<const std::byte> bitmap,
               std::span<std::byte> packed) noexcept;

}  // namespace weir

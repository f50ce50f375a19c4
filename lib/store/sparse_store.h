// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SparseStore: the rows of a sparse table, found by key.

#include <cstdint>
#include <span>

#include "lib/base/result.h"
#include "lib/store/key_index.h"
#include "lib/store/row_store.h"
#include "lib/store/rule.h"

namespace weir {

/// A row is `width` values, then their rule state. Rows are numbered in the order in which their
/// keys came, and never move.
///
/// Thread: owning shard
class SparseStore {
public:
    /// `initial_row` is what a key that was never written reads as: values, then state.
    SparseStore(Memory& memory, std::span<const std::byte> initial_row, size_t values_bytes,
                size_t expected_keys)
        : values_bytes_(values_bytes),
          expected_keys_(expected_keys),
          index_(memory, {.expected_keys = expected_keys}),
          rows_(memory, initial_row) {}

    /// Writes the row of each key to `rows`, kNoRow for missing keys. Returns the number of
    /// missing keys.
    size_t find_rows(std::span<const uint64_t> keys, std::span<uint32_t> rows) const noexcept {
        return index_.find(keys, rows);
    }

    /// Writes the row of each key to `rows`, and makes missing rows. `keys` must be distinct.
    /// Errors: Errc::kNoMemory; some of the new keys may then exist, with the initial values
    [[nodiscard]] Status find_or_insert_rows(std::span<const uint64_t> keys,
                                             std::span<uint32_t> rows);

    /// Copies the values of `rows` to `out`, row by row; kNoRow reads as the initial values.
    void pull(std::span<const uint32_t> rows, std::byte* out) const noexcept;

    [[nodiscard]] RowTarget target(uint32_t width) const noexcept {
        return {rows_.view(), rows_.view(values_bytes_), width};
    }

    [[nodiscard]] size_t row_count() const noexcept { return index_.size(); }

    [[nodiscard]] size_t bytes() const noexcept { return index_.bytes() + rows_.bytes(); }

private:
    [[nodiscard]] Status reserve_rows(size_t row_count);

    size_t values_bytes_;
    size_t expected_keys_;
    KeyIndex index_;
    RowStore rows_;
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// DenseStore: the values of a dense table's key ranges that one shard owns.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/result.h"
#include "lib/key/key_range.h"
#include "lib/store/row_store.h"
#include "lib/store/rule.h"

namespace weir {

/// All owned values lie in one array, key range after key range; the rule's state lies in
/// another. A key's row is its index among the owned keys.
///
/// Thread: owning shard
class DenseStore {
public:
    /// `owned` is ascending and disjoint; `initial_state` is empty for rules without state.
    /// Errors: Errc::kNoMemory; Errc::kInvalidArgument if a shard would own 2^32 - 1 keys or more
    [[nodiscard]] static Result<DenseStore> make(Memory& memory, std::span<const KeyRange> owned,
                                                 std::span<const std::byte> initial_values,
                                                 std::span<const std::byte> initial_state);

    /// The row of the first key of `keys`; the others follow. Nothing if `keys` is empty or not
    /// wholly within one owned range.
    [[nodiscard]] std::optional<uint32_t> first_row(KeyRange keys) const noexcept;

    /// The row of each of the ascending `keys`. Reads each key once.
    /// Errors: Errc::kOutOfRange naming the first key that is not owned
    [[nodiscard]] Status find_rows(std::span<const uint64_t> keys, std::span<uint32_t> rows) const;

    /// The values of the rows from `row` on, side by side up to row_count().
    [[nodiscard]] std::byte* values(uint32_t row) const noexcept { return values_.view().at(row); }

    /// The state of the rows from `row` on; nullptr if the rule has none.
    [[nodiscard]] std::byte* state(uint32_t row) const noexcept {
        return state_ ? state_->view().at(row) : nullptr;
    }

    /// Copies the values of `rows` to `out`, row by row.
    void pull(std::span<const uint32_t> rows, std::byte* out) const noexcept;

    [[nodiscard]] RowTarget target(uint32_t width) const noexcept {
        return {values_.view(), state_ ? state_->view() : RowView{}, width};
    }

    [[nodiscard]] std::span<const KeyRange> owned() const noexcept { return owned_; }

    [[nodiscard]] size_t row_count() const noexcept { return row_count_; }

    [[nodiscard]] size_t bytes() const noexcept {
        return values_.bytes() + (state_ ? state_->bytes() : 0);
    }

private:
    DenseStore(Memory& memory, std::span<const KeyRange> owned,
               std::span<const std::byte> initial_values, std::span<const std::byte> initial_state);

    std::vector<KeyRange> owned_;
    std::vector<uint32_t> first_rows_;  // of each owned range
    size_t row_count_ = 0;
    RowStore values_;
    std::optional<RowStore> state_;
};

}  // namespace weir

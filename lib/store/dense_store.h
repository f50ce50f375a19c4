// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// DenseStore: the values of a dense table's key ranges that one shard owns.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/result.h"
#include "lib/key/key_range.h"
#include "lib/store/initial_rows.h"
#include "lib/store/kept_rows.h"
#include "lib/store/row_store.h"
#include "lib/store/rules/rule.h"

namespace weir {

/// The values that are owned from the start lie in one array, key range after key range; the
/// rule's state lies in another. Each range that is added later has arrays of its own. Rows never
/// move.
///
/// Random initial values take long to make. New rows do not have them until fill_some() has made them,
/// or were written: nobody may read or change these rows before.
///
/// Thread: owning shard
class DenseStore {
public:
    /// `owned` is ascending and disjoint; `initial_values`: of a row, unless `initial_rows` are random;
    /// `initial_state` is empty for rules without state.
    /// Errors: Errc::kNoMemory; Errc::kInvalidArgument if a shard would own 2^32 - 1 keys or more
    [[nodiscard]] static Result<DenseStore> make(Memory& memory, std::span<const KeyRange> owned,
                                                 const InitialRows& initial_rows,
                                                 std::span<const std::byte> initial_values,
                                                 std::span<const std::byte> initial_state);

    /// Makes up to `rows_max` rows of `keys` initial that neither are so nor were written, and counts
    /// them down. Returns whether all of `keys` are.
    [[nodiscard]] bool fill_some(KeyRange keys, size_t& rows_max);

    /// These rows are written now: they need no initial values any more.
    void note_written(uint32_t first_row, size_t row_count);

    /// Rows that were neither made initial nor written.
    [[nodiscard]] size_t unfilled_rows() const noexcept;

    /// Adds key ranges, which are disjoint and not owned yet, as new rows. They stay
    /// apart from ranges that they touch: first_row() finds no keys that reach into both.
    /// Errors: as make(); nothing was added
    [[nodiscard]] Status add(std::span<const KeyRange> keys);

    /// Drops owned keys and gives their memory back. The other rows stay where they are.
    void drop(KeyRange keys);

    /// The row of the first key of `keys`; the others follow. Nothing if `keys` is empty or not
    /// wholly within one owned range.
    [[nodiscard]] std::optional<uint32_t> first_row(KeyRange keys) const noexcept;

    /// The key of a row; nothing if it has none.
    [[nodiscard]] std::optional<uint64_t> key_of(uint32_t row) const noexcept;

    /// The owned range that has `key`; empty if there is none.
    [[nodiscard]] KeyRange range_of(uint64_t key) const noexcept;

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

    /// The same for the state, if the rule has any.
    void pull_state(std::span<const uint32_t> rows, std::byte* out) const noexcept;

    /// Writes values and state of `rows`, which have the same order; no state if the rule has none.
    void put(std::span<const uint32_t> rows, const std::byte* values, const std::byte* state);

    /// Keeps all rows as they are now.
    [[nodiscard]] std::unique_ptr<KeptRows> keep_rows() const;

    [[nodiscard]] RowTarget target(uint32_t width) const noexcept {
        return {values_.view(), state_ ? state_->view() : RowView{}, width, {this, &keys_of}};
    }

    /// The owned ranges of keys, ascending; in each, values lie side by side.
    [[nodiscard]] std::span<const KeyRange> owned() const noexcept { return owned_; }

    [[nodiscard]] size_t row_count() const noexcept { return row_count_; }

    /// The row of the first key of owned()[i].
    [[nodiscard]] uint32_t first_row_of(size_t i) const noexcept { return first_rows_[i]; }

    /// One past the highest row of a key.
    [[nodiscard]] size_t row_end() const noexcept {
        size_t end = 0;
        for (size_t i = 0; i < owned_.size(); ++i)
            end = std::max<size_t>(end, first_rows_[i] + owned_[i].key_count());
        return end;
    }

    [[nodiscard]] size_t bytes() const noexcept {
        return values_.bytes() + (state_ ? state_->bytes() : 0);
    }

private:
    DenseStore(Memory& memory, std::span<const KeyRange> owned, const InitialRows& initial_rows,
               std::span<const std::byte> initial_values, std::span<const std::byte> initial_state);

    static void keys_of(const void* store, std::span<const uint32_t> rows, uint64_t* keys);
    [[nodiscard]] Status add(KeyRange keys);
    [[nodiscard]] std::optional<uint32_t> unused_rows(uint64_t count) const;

    std::vector<KeyRange> owned_;
    std::vector<uint32_t> first_rows_;  // of each owned range
    size_t row_count_ = 0;
    InitialRows initial_rows_;
    std::map<uint32_t, uint32_t> unfilled_;  // rows that are not initial, from first to end
    RowStore values_;
    std::optional<RowStore> state_;
};

}  // namespace weir

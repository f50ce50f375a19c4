// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SparseStore: the rows of a sparse table, found by key.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/result.h"
#include "lib/store/free_rows.h"
#include "lib/store/index/key_index.h"
#include "lib/store/initial_rows.h"
#include "lib/store/kept_rows.h"
#include "lib/store/row_store.h"
#include "lib/store/rules/rule.h"

namespace weir {

/// A row is `width` values, then, where it is aligned, their rule state, and keeps its number. Rows are numbered in the
/// order in which their keys came, but the numbers of dropped rows are used first.
///
/// Thread: owning shard
class SparseStore {
public:
    /// `initial_row` is what a key that was never written reads as: values, then from `state_at` on the
    /// state; its values do not count if `initial_rows` are random.
    /// `expected_keys` are those of this shard.
    /// `secret_seed` is that of its KeyIndex. `keeps_keys`: by row, from the start, so that
    /// find_keys() never walks.
    SparseStore(Memory& memory, const InitialRows& initial_rows,
                std::span<const std::byte> initial_row, size_t values_bytes, size_t state_at,
                size_t expected_keys, std::optional<uint64_t> secret_seed, bool keeps_keys)
        : initial_rows_(initial_rows),
          values_bytes_(values_bytes),
          state_at_(state_at),
          expected_keys_(expected_keys),
          index_(memory, {.expected_keys = expected_keys, .seed = secret_seed}),
          rows_(memory, initial_row),
          must_keep_keys_(keeps_keys) {
        if (!keeps_keys) return;
        make_keys(memory);
        keys_walk_.at_end = true;
    }

    /// Writes the row of each key to `rows`, kNoRow for missing keys. Returns the number of
    /// missing keys.
    size_t find_rows(std::span<const uint64_t> keys, std::span<uint32_t> rows) const noexcept {
        return index_.find(keys, rows);
    }

    /// Writes the row of each key to `rows`, and makes missing rows. `keys` must be distinct.
    /// Errors: Errc::kNoMemory; some of the new keys may then exist, with the initial values
    [[nodiscard]] Status find_or_insert_rows(std::span<const uint64_t> keys,
                                             std::span<uint32_t> rows);

    /// Copies the values of `rows` to `out`, row by row; kNoRow reads as the initial row.
    void pull(std::span<const uint32_t> rows, std::byte* out) const noexcept;

    /// The same for the state, if the rule has any.
    void pull_state(std::span<const uint32_t> rows, std::byte* out) const noexcept;

    /// Writes values and state of `rows`, as pull() and pull_state() read them.
    void put(std::span<const uint32_t> rows, const std::byte* values,
             const std::byte* state) noexcept;

    /// As KeyIndex::list().
    void list(KeyCursor& cursor, const PositionSet& positions, size_t key_count_max,
              size_t bucket_count_max, std::vector<uint64_t>& keys,
              std::vector<uint32_t>& rows) const {
        index_.list(cursor, positions, key_count_max, bucket_count_max, keys, rows);
    }

    /// As list(), in the order of the rows; `cursor.next` is a row. Looks at `row_count_looked` rows at
    /// most. The keys have to be kept by row: the first calls do a part of that each, and list nothing.
    /// False: there is no memory for that, or there was none since the cursor was made. A walk misses
    /// keys that were dropped and came again, or meets them twice. Where all positions are wanted, and no
    /// row was dropped, only the `run` of rows is found, without their keys.
    [[nodiscard]] bool list_by_row(Memory& memory, KeyCursor& cursor, const PositionSet& positions,
                                   size_t key_count_max, size_t row_count_looked,
                                   std::vector<uint64_t>& keys, std::vector<uint32_t>& rows,
                                   RowStore::Run& run);

    /// As pull() and pull_state(), of rows that list_by_row() has found, and their keys.
    void pull_run(RowStore::Run run, std::byte* out) const noexcept;
    void pull_state_of_run(RowStore::Run run, std::byte* out) const noexcept;
    void pull_keys_of_run(RowStore::Run run, std::byte* out) const noexcept;

    /// Drops rows outside of `kept`, as KeyIndex::remove_outside(). At the end of the walk, gives
    /// back the memory of extents that have no row left.
    void drop_outside(KeyCursor& cursor, const PositionSet& kept, size_t bucket_count_max);

    /// How many keys have got a row since such a walk began.
    [[nodiscard]] size_t keys_made_in_walk() const noexcept { return index_.added_in_walk(); }

    /// The same of rows of which drops(key, row) says so.
    void drop_if(KeyCursor& cursor, const KeyIndex::Drops& drops, size_t bucket_count_max);

    /// Makes rows initial again, which stay with their keys. If that is random, the store keeps keys.
    void reset(std::span<const uint32_t> rows) noexcept;

    /// Whether find_or_insert_rows() has made the row since forget_made().
    [[nodiscard]] bool was_made(uint32_t row) const noexcept {
        return row / 64 < made_.size() && (made_[row / 64] >> row % 64 & 1) != 0;
    }

    void forget_made() noexcept {
        for (const RowStore::Run run : made_runs_) {
            for (size_t word = run.first_row / 64; word <= last_row(run) / 64; ++word)
                made_[word] = 0;
        }
        made_runs_.clear();
    }

    /// The keys of rows that have some. The first time it walks through all keys, and remembers them by
    /// row; without `memory` for that, it walks each time.
    /// Shape:   keys.size() == rows.size()
    void find_keys(Memory& memory, std::span<const uint32_t> rows, std::span<uint64_t> keys);

    /// Keeps the rows of all keys as they are now.
    [[nodiscard]] std::unique_ptr<KeptRows> keep_rows() const;

    [[nodiscard]] RowTarget target(uint32_t width) const noexcept {
        return {rows_.view(), rows_.view(state_at_), width, {this, &kept_keys}};
    }

    [[nodiscard]] size_t row_count() const noexcept { return index_.size(); }

    [[nodiscard]] size_t bytes() const noexcept {
        return index_.bytes() + rows_.bytes() + (keys_ ? keys_->bytes() : 0);
    }

private:
    void make_keys(Memory& memory);
    static void kept_keys(const void* store, std::span<const uint32_t> rows, uint64_t* keys);

    [[nodiscard]] size_t state_bytes() const noexcept { return rows_.initial().size() - state_at_; }

    [[nodiscard]] bool remember_keys(Memory& memory);
    [[nodiscard]] bool remember_some_keys(Memory& memory);

    /// Of a row below next_row().
    [[nodiscard]] bool has_key(uint32_t row) const noexcept;

    [[nodiscard]] bool has_all_keys() const noexcept { return keys_ && keys_walk_.at_end; }

    template <class Use>
    void walk(Use&& use) const;
    [[nodiscard]] Status take_rows(std::span<uint32_t> rows);
    [[nodiscard]] Status reserve_rows(size_t row_count);
    void free_rows(bool is_at_end);
    void give_back_extents();
    void note_made(uint32_t first_row, uint32_t row_count);

    [[nodiscard]] static size_t last_row(RowStore::Run run) noexcept {
        return size_t{run.first_row} + run.row_count - 1;
    }

    void fill(std::span<const uint64_t> keys, std::span<const uint32_t> rows,
              uint32_t first_row) noexcept;
    void note_keys(std::span<const uint64_t> keys, std::span<const uint32_t> rows,
                   uint32_t first_row);

    InitialRows initial_rows_;
    size_t values_bytes_;
    size_t state_at_;  ///< in a row
    size_t expected_keys_;
    KeyIndex index_;
    RowStore rows_;
    std::optional<RowStore> keys_;  // by row, if they are remembered
    KeyCursor keys_walk_;           // up to where those are that came before keys_
    bool must_keep_keys_;           // a row has room there before its key has it
    FreeRows free_;
    std::vector<RowStore::Run> given_back_;  // rows below next_row() that have no memory
    std::vector<uint64_t> made_;             // a bit per row
    std::vector<RowStore::Run> made_runs_;   // that have bits there; some may touch
    std::vector<uint32_t> some_rows_;        // kept for its memory
};

}  // namespace weir

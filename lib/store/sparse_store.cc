// SPDX-License-Identifier: Apache-2.0
#include "lib/store/sparse_store.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "lib/store/row_copy.h"

namespace weir {

Status SparseStore::find_or_insert_rows(std::span<const uint64_t> keys, std::span<uint32_t> rows) {
    WEIR_CHECK(rows.size() == keys.size());
    // So few at a time that the buckets that find() read are still in cache for insert_missing().
    constexpr size_t kChunk = 1024;
    for (size_t begin = 0; begin < keys.size(); begin += kChunk) {
        const size_t count = std::min(kChunk, keys.size() - begin);
        const auto some_keys = keys.subspan(begin, count);
        const auto some_rows = rows.subspan(begin, count);
        if (free_.empty() && index_.has_room_for(count) &&
            rows_.capacity() >= index_.next_row() + count &&
            (!must_keep_keys_ || keys_->capacity() >= index_.next_row() + count)) {
            const auto first_new = static_cast<uint32_t>(index_.next_row());
            index_.upsert(some_keys, some_rows);
            const auto made = static_cast<uint32_t>(index_.next_row()) - first_new;
            if (made == 0) continue;
            note_made(first_new, made);
            if (keys_) note_keys(some_keys, some_rows, first_new);
            fill(some_keys, some_rows, first_new);
            continue;
        }
        const size_t missing = index_.find(some_keys, some_rows);
        if (missing == 0) continue;
        some_rows_.resize(missing);
        WEIR_TRY(take_rows(some_rows_));
        const Result<size_t> used = index_.insert_missing(some_keys, some_rows, some_rows_);
        // Rows that were never used need not be freed: they are beyond next_row().
        for (size_t i = used ? *used : 0; i < missing; ++i) {
            if (some_rows_[i] < index_.next_row()) free_.add(some_rows_[i]);
        }
        if (!used && !must_keep_keys_) keys_.reset();  // gives its memory to what needs it more
        if (!used) return used.error();
        for (const uint32_t row : std::span(some_rows_).first(*used))
            note_made(row, 1);
        if (keys_) note_keys(some_keys, some_rows, 0);
        if (!initial_rows_.are_random()) continue;
        for (size_t i = 0; i < count; ++i) {
            if (was_made(some_rows[i])) fill(some_keys.subspan(i, 1), some_rows.subspan(i, 1), 0);
        }
    }
    return {};
}

/// Rows that have just been given to keys; there is at least one.
void SparseStore::note_made(uint32_t first_row, uint32_t row_count) {
    const RowStore::Run run{first_row, row_count};
    if (made_.size() <= last_row(run) / 64) made_.resize(index_.next_row() / 64 + 1);
    for (size_t row = first_row; row <= last_row(run);) {
        const size_t bit = row % 64;
        const size_t count = std::min<size_t>(64 - bit, last_row(run) + 1 - row);
        made_[row / 64] |= (~uint64_t{0} >> (64 - count)) << bit;
        row += count;
    }
    const bool goes_on = !made_runs_.empty() && last_row(made_runs_.back()) + 1 == first_row;
    if (goes_on) {
        made_runs_.back().row_count += row_count;
    } else {
        made_runs_.push_back(run);
    }
}

/// Makes the initial values of keys whose rows are not below `first_row`, and are new.
void SparseStore::fill(std::span<const uint64_t> keys, std::span<const uint32_t> rows,
                       uint32_t first_row) noexcept {
    if (!initial_rows_.are_random()) return;
    const RowView view = rows_.view();
    for (size_t i = 0; i < keys.size(); ++i) {
        if (rows[i] >= first_row) initial_rows_.fill(keys[i], view.at(rows[i]));
    }
}

/// Calls use(keys, rows) for some after the other, until it returns false.
template <class Use>
void SparseStore::walk(Use&& use) const {
    constexpr size_t kStepKeys = 4096;
    const PositionSet everywhere = PositionSet::whole_ring();
    std::vector<uint64_t> keys;
    std::vector<uint32_t> rows;
    for (KeyCursor cursor; !cursor.at_end;) {
        keys.clear();
        rows.clear();
        index_.list(cursor, everywhere, kStepKeys, kStepKeys, keys, rows);
        if (!use(keys, rows)) return;
    }
}

void SparseStore::make_keys(Memory& memory) {
    constexpr uint64_t kNoKey = 0;
    keys_.emplace(memory, std::as_bytes(std::span(&kNoKey, 1)));
}

/// The keys of rows that have some, of a store that keeps them.
void SparseStore::kept_keys(const void* store, std::span<const uint32_t> rows, uint64_t* keys) {
    const RowView view = static_cast<const SparseStore*>(store)->keys_->view();
    for (size_t i = 0; i < rows.size(); ++i)
        std::memcpy(&keys[i], view.at(rows[i]), sizeof keys[i]);
}

bool SparseStore::remember_keys(Memory& memory) {
    while (remember_some_keys(memory)) {
        if (has_all_keys()) return true;
    }
    return false;
}

/// Does a bounded part of it, if some is left. False: there is no memory.
bool SparseStore::remember_some_keys(Memory& memory) {
    if (!keys_) {
        make_keys(memory);
        keys_walk_ = {};
    }
    if (keys_walk_.at_end) return true;
    constexpr size_t kStepKeys = 8192;
    std::vector<uint64_t> keys;
    some_rows_.clear();
    index_.list(keys_walk_, PositionSet::whole_ring(), kStepKeys, kStepKeys / 4, keys, some_rows_);
    note_keys(keys, some_rows_, 0);
    return keys_.has_value();
}

bool SparseStore::has_key(uint32_t row) const noexcept {
    return !free_.contains(row) && std::ranges::none_of(given_back_, [row](RowStore::Run run) {
        return row >= run.first_row && row - run.first_row < run.row_count;
    });
}

bool SparseStore::list_by_row(Memory& memory, KeyCursor& cursor, const PositionSet& positions,
                              size_t key_count_max, size_t row_count_looked,
                              std::vector<uint64_t>& keys, std::vector<uint32_t>& rows,
                              RowStore::Run& run) {
    if (!has_all_keys()) {
        // What was listed before is not to be listed again, and the keys were there then.
        if (cursor.next != 0 || !remember_some_keys(memory)) return false;
        if (!has_all_keys()) return true;
    }
    const bool is_all = positions.is_whole_ring();
    const bool has_gaps = !free_.empty() || !given_back_.empty();
    const RowView kept = keys_->view();
    const size_t row_end = index_.next_row();
    uint64_t row = std::min<uint64_t>(cursor.next, row_end);
    const size_t end = row + std::min<uint64_t>(row_count_looked, row_end - row);
    if (is_all && !has_gaps) {
        const size_t count = std::min(end - row, key_count_max);
        run = {static_cast<uint32_t>(row), static_cast<uint32_t>(count)};
        row += count;
    }
    const size_t keys_end = keys.size() + key_count_max - run.row_count;
    while (row < end && keys.size() < keys_end) {
        const auto first = static_cast<uint32_t>(row);
        const size_t some = std::min<size_t>({kept.run(first), end - row, keys_end - keys.size()});
        const std::byte* const from = kept.at(first);
        row += some;
        for (uint32_t i = 0; i < some; ++i) {
            uint64_t key = 0;
            std::memcpy(&key, from + i * sizeof key, sizeof key);
            const bool is_wanted =
                is_all || positions.contains(PositionMap::sparse().position(key));
            if (!is_wanted || (has_gaps && !has_key(first + i))) continue;
            keys.push_back(key);
            rows.push_back(first + i);
        }
    }
    cursor.next = row;
    cursor.at_end = row >= row_end;
    return true;
}

void SparseStore::find_keys(Memory& memory, std::span<const uint32_t> rows,
                            std::span<uint64_t> keys) {
    WEIR_CHECK(keys.size() == rows.size());
    if (remember_keys(memory)) return kept_keys(this, rows, keys.data());
    std::vector<uint32_t> order(rows.size());  // by row
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](uint32_t i) { return rows[i]; });
    walk([&](std::span<const uint64_t> some_keys, std::span<const uint32_t> some_rows) {
        for (size_t k = 0; k < some_rows.size(); ++k) {
            auto at = std::ranges::lower_bound(order, some_rows[k], {},
                                               [&](uint32_t i) { return rows[i]; });
            for (; at != order.end() && rows[*at] == some_rows[k]; ++at)
                keys[*at] = some_keys[k];
        }
        return true;
    });
}

/// Of rows that are not below `first_row`.
void SparseStore::note_keys(std::span<const uint64_t> keys, std::span<const uint32_t> rows,
                            uint32_t first_row) {
    if (!keys_->reserve(index_.next_row())) {
        WEIR_CHECK(!must_keep_keys_);  // reserve_rows() has made room
        return keys_.reset();
    }
    const RowView view = keys_->view();
    for (size_t i = 0; i < keys.size(); ++i) {
        if (rows[i] >= first_row) std::memcpy(view.at(rows[i]), &keys[i], sizeof keys[i]);
    }
}

/// Chooses rows for new keys: free ones first, in ascending order.
Status SparseStore::take_rows(std::span<uint32_t> rows) {
    while (free_.count() < rows.size() && !given_back_.empty()) {
        const RowStore::Run run = given_back_.back();
        if (!rows_.add_run(run.first_row, run.row_count)) break;
        given_back_.pop_back();
        free_.add_run(run.first_row, run.row_count);
    }
    const size_t reused = std::min(rows.size(), free_.count());
    WEIR_TRY(reserve_rows(index_.next_row() + rows.size() - reused));
    free_.take(rows.first(reused));
    std::iota(rows.begin() + static_cast<ptrdiff_t>(reused), rows.end(),
              static_cast<uint32_t>(index_.next_row()));
    return {};
}

Status SparseStore::reserve_rows(size_t row_count) {
    if (must_keep_keys_) WEIR_TRY(keys_->reserve(std::min<size_t>(row_count, kNoRow)));
    // If the number of keys is known before, all rows lie side by side, memory permitting.
    if (row_count <= expected_keys_) {
        if (rows_.reserve(expected_keys_)) return {};
        expected_keys_ = 0;  // too little memory: grow step by step
    }
    return rows_.reserve(std::min<size_t>(row_count, kNoRow));
}

void SparseStore::pull(std::span<const uint32_t> rows, std::byte* out) const noexcept {
    copy_rows(rows_.view(), rows, values_bytes_, rows_.initial().data(), out);
}

void SparseStore::pull_state(std::span<const uint32_t> rows, std::byte* out) const noexcept {
    if (state_bytes() == 0) return;
    copy_rows(rows_.view(state_at_), rows, state_bytes(), rows_.initial().data() + state_at_, out);
}

void SparseStore::pull_run(RowStore::Run run, std::byte* out) const noexcept {
    copy_run(rows_.view(), run, values_bytes_, out);
}

void SparseStore::pull_state_of_run(RowStore::Run run, std::byte* out) const noexcept {
    if (state_bytes() != 0) copy_run(rows_.view(state_at_), run, state_bytes(), out);
}

void SparseStore::pull_keys_of_run(RowStore::Run run, std::byte* out) const noexcept {
    copy_run(keys_->view(), run, sizeof(uint64_t), out);
}

void SparseStore::put(std::span<const uint32_t> rows, const std::byte* values,
                      const std::byte* state) noexcept {
    put_rows(rows_.view(), rows, values_bytes_, values);
    if (state_bytes() != 0) put_rows(rows_.view(state_at_), rows, state_bytes(), state);
}

std::unique_ptr<KeptRows> SparseStore::keep_rows() const {
    auto kept = std::make_unique<KeptRows>(
        KeptRows::Layout{.row_end = static_cast<uint32_t>(index_.next_row()),
                         .value_bytes = values_bytes_,
                         .state_bytes = state_bytes()});
    free_.for_each([&](uint32_t row) { kept->leave_out(row, 1); });
    for (const RowStore::Run run : given_back_)
        kept->leave_out(run.first_row, run.row_count);
    return kept;
}

void SparseStore::drop_outside(KeyCursor& cursor, const PositionSet& kept,
                               size_t bucket_count_max) {
    some_rows_.clear();
    index_.remove_outside(cursor, kept, bucket_count_max, some_rows_);
    free_rows(cursor.at_end);
}

void SparseStore::drop_if(KeyCursor& cursor, const KeyIndex::Drops& drops,
                          size_t bucket_count_max) {
    some_rows_.clear();
    index_.remove_if(cursor, drops, bucket_count_max, some_rows_);
    free_rows(cursor.at_end);
}

void SparseStore::reset(std::span<const uint32_t> rows) noexcept {
    rows_.reset_rows(rows);
    if (!initial_rows_.are_random()) return;
    const RowView view = rows_.view();
    for (const uint32_t row : rows) {
        uint64_t key = 0;
        kept_keys(this, {&row, 1}, &key);
        initial_rows_.fill(key, view.at(row));
    }
}

/// The index has let go of some_rows_.
void SparseStore::free_rows(bool is_at_end) {
    if (index_.size() == 0) {
        index_.clear();
        rows_.clear();
        if (keys_) keys_->clear();
        free_.clear();
        given_back_.clear();
        return;
    }
    rows_.reset_rows(some_rows_);
    for (const uint32_t row : some_rows_)
        free_.add(row);
    if (is_at_end) give_back_extents();
}

void SparseStore::give_back_extents() {
    if (rows_.is_small()) return;
    for (const RowStore::Run run : rows_.runs()) {
        if (size_t{run.first_row} + run.row_count > index_.next_row()) continue;
        if (!free_.has_run(run.first_row, run.row_count)) continue;
        free_.remove_run(run.first_row, run.row_count);
        rows_.drop_run(run.first_row, run.row_count);
        given_back_.push_back(run);
    }
}

}  // namespace weir

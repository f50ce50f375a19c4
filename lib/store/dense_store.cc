// SPDX-License-Identifier: Apache-2.0
#include "lib/store/dense_store.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/core.h>

#include "lib/store/row_copy.h"

namespace weir {

namespace {

Error too_many_keys() {
    return Error(Errc::kInvalidArgument,
                 fmt::format("dense table: a shard cannot own {} keys or more; use more shards, or "
                             "a larger width and fewer keys",
                             kNoRow));
}

}  // namespace

Result<DenseStore> DenseStore::make(Memory& memory, std::span<const KeyRange> owned,
                                    const InitialRows& initial_rows,
                                    std::span<const std::byte> initial_values,
                                    std::span<const std::byte> initial_state) {
    uint64_t keys = 0;
    for (const KeyRange range : owned) {
        keys += std::min<uint64_t>(range.key_count(), kNoRow);
        if (keys >= kNoRow) return too_many_keys();
    }
    DenseStore store(memory, owned, initial_rows, initial_values, initial_state);
    if (keys == 0) return store;
    const auto rows = static_cast<uint32_t>(keys);
    WEIR_TRY(store.values_.add_run(0, rows));
    if (store.state_) WEIR_TRY(store.state_->add_run(0, rows));
    if (initial_rows.are_random()) store.unfilled_.emplace(0, rows);
    return store;
}

bool DenseStore::fill_some(KeyRange keys, size_t& rows_max) {
    const RowView view = values_.view();
    for (size_t i = 0; i < owned_.size() && !unfilled_.empty(); ++i) {
        const KeyRange both = intersect(owned_[i], keys);
        if (both.empty()) continue;
        uint32_t row = first_rows_[i] + static_cast<uint32_t>(both.begin - owned_[i].begin);
        const uint32_t end = row + static_cast<uint32_t>(both.key_count());
        while (row < end) {
            auto next = unfilled_.upper_bound(row);
            if (next != unfilled_.begin() && std::prev(next)->second > row) --next;
            if (next == unfilled_.end() || next->first >= end) break;
            row = std::max(row, next->first);
            if (rows_max == 0) return false;
            const auto count = static_cast<uint32_t>(
                std::min<size_t>(rows_max, std::min(end, next->second) - row));
            for (uint32_t k = 0; k < count; ++k)
                initial_rows_.fill(owned_[i].begin + (row + k - first_rows_[i]), view.at(row + k));
            rows_max -= count;
            note_written(row, count);
            row += count;
        }
    }
    return true;
}

void DenseStore::note_written(uint32_t first_row, size_t row_count) {
    if (unfilled_.empty()) [[likely]]
        return;
    const auto end = static_cast<uint32_t>(first_row + row_count);
    auto next = unfilled_.upper_bound(first_row);
    if (next != unfilled_.begin()) --next;
    while (next != unfilled_.end() && next->first < end) {
        const auto [from, to] = *next;
        if (to <= first_row) {
            ++next;
            continue;
        }
        next = unfilled_.erase(next);
        if (from < first_row) unfilled_.emplace(from, first_row);
        if (to > end) unfilled_.emplace(end, to);
    }
}

size_t DenseStore::unfilled_rows() const noexcept {
    size_t rows = 0;
    for (const auto& [first, end] : unfilled_)
        rows += end - first;
    return rows;
}

DenseStore::DenseStore(Memory& memory, std::span<const KeyRange> owned,
                       const InitialRows& initial_rows, std::span<const std::byte> initial_values,
                       std::span<const std::byte> initial_state)
    : owned_(owned.begin(), owned.end()),
      initial_rows_(initial_rows),
      values_(memory, initial_values) {
    if (!initial_state.empty()) state_.emplace(memory, initial_state);
    for (const KeyRange range : owned_) {
        first_rows_.push_back(static_cast<uint32_t>(row_count_));
        row_count_ += range.key_count();
    }
}

Status DenseStore::add(std::span<const KeyRange> keys) {
    for (size_t i = 0; i < keys.size(); ++i) {
        Status added = keys[i].empty() ? Status() : add(keys[i]);
        if (added) continue;
        while (i-- > 0)
            drop(keys[i]);
        return added;
    }
    return {};
}

Status DenseStore::add(KeyRange keys) {
    const std::optional<uint32_t> row = unused_rows(keys.key_count());
    if (!row) return too_many_keys();
    const auto count = static_cast<uint32_t>(keys.key_count());
    WEIR_TRY(values_.add_run(*row, count));
    if (state_) {
        Status added = state_->add_run(*row, count);
        if (!added) {
            values_.drop_run(*row, count);
            return added;
        }
    }
    if (initial_rows_.are_random()) unfilled_.emplace(*row, *row + count);
    const auto next = std::ranges::upper_bound(owned_, keys.begin, {}, &KeyRange::begin);
    first_rows_.insert(first_rows_.begin() + (next - owned_.begin()), *row);
    owned_.insert(next, keys);
    row_count_ += count;
    return {};
}

/// The lowest row numbers that are free for so many keys. They begin at a granule, and no other
/// range has rows in their granules.
std::optional<uint32_t> DenseStore::unused_rows(uint64_t count) const {
    const uint64_t unit =
        std::max(values_.rows_per_granule(), state_ ? state_->rows_per_granule() : 0U);
    const auto round_up = [&](uint64_t row) { return (row + unit - 1) / unit * unit; };
    std::vector<KeyRange> used;  // rows
    for (size_t i = 0; i < owned_.size(); ++i)
        used.push_back({first_rows_[i], first_rows_[i] + owned_[i].key_count()});
    std::ranges::sort(used, {}, &KeyRange::begin);
    uint64_t first = 0;
    for (const KeyRange rows : used) {
        if (count <= kNoRow && round_up(first + count) <= rows.begin / unit * unit) break;
        first = round_up(rows.end);
    }
    if (count >= kNoRow || first + count >= kNoRow) return std::nullopt;
    return static_cast<uint32_t>(first);
}

void DenseStore::drop(KeyRange keys) {
    if (keys.empty()) return;
    const std::optional<uint32_t> row = first_row(keys);
    WEIR_CHECK(row.has_value());
    const auto count = static_cast<uint32_t>(keys.key_count());
    note_written(*row, count);
    values_.drop_run(*row, count);
    if (state_) state_->drop_run(*row, count);
    row_count_ -= count;
    const auto next = std::ranges::upper_bound(owned_, keys.begin, {}, &KeyRange::begin);
    const auto at = next - owned_.begin() - 1;
    const KeyRange whole = owned_[static_cast<size_t>(at)];
    owned_.erase(owned_.begin() + at);
    const uint32_t whole_row = first_rows_[static_cast<size_t>(at)];
    first_rows_.erase(first_rows_.begin() + at);
    const auto keep = [&](KeyRange part) {
        if (part.empty()) return;
        const auto behind = std::ranges::upper_bound(owned_, part.begin, {}, &KeyRange::begin);
        first_rows_.insert(first_rows_.begin() + (behind - owned_.begin()),
                           whole_row + static_cast<uint32_t>(part.begin - whole.begin));
        owned_.insert(behind, part);
    };
    keep({whole.begin, keys.begin});
    keep({keys.end, whole.end});
    if (owned_.empty()) {  // row numbers begin anew
        values_.clear();
        if (state_) state_->clear();
    }
}

std::unique_ptr<KeptRows> DenseStore::keep_rows() const {
    KeptRows::Layout layout{.row_end = static_cast<uint32_t>(row_end()),
                            .value_bytes = values_.initial().size(),
                            .state_bytes = state_ ? state_->initial().size() : 0};
    const uint32_t granule =
        std::min(values_.rows_per_granule(), state_ ? state_->rows_per_granule() : ~uint32_t{0});
    const size_t row_bytes = layout.value_bytes + layout.state_bytes;
    const size_t rows = std::max<size_t>(1, KeptRows::kUnitBytes / row_bytes);
    layout.unit_rows = static_cast<uint32_t>(std::min<size_t>(granule, std::bit_floor(rows)));
    for (size_t i = 0; i < owned_.size(); ++i) {
        const auto count = static_cast<uint32_t>(owned_[i].key_count());
        layout.present.emplace_back(first_rows_[i], first_rows_[i] + count);
    }
    std::ranges::sort(layout.present);
    return std::make_unique<KeptRows>(std::move(layout));
}

std::optional<uint32_t> DenseStore::first_row(KeyRange keys) const noexcept {
    const auto next = std::ranges::upper_bound(owned_, keys.begin, {}, &KeyRange::begin);
    if (next == owned_.begin() || keys.empty()) return std::nullopt;
    const auto i = static_cast<size_t>(next - owned_.begin()) - 1;
    if (!owned_[i].contains(keys)) return std::nullopt;
    return first_rows_[i] + static_cast<uint32_t>(keys.begin - owned_[i].begin);
}

std::optional<uint64_t> DenseStore::key_of(uint32_t row) const noexcept {
    for (size_t i = 0; i < owned_.size(); ++i) {
        if (row >= first_rows_[i] && row - first_rows_[i] < owned_[i].key_count())
            return owned_[i].begin + (row - first_rows_[i]);
    }
    return std::nullopt;
}

void DenseStore::keys_of(const void* store, std::span<const uint32_t> rows, uint64_t* keys) {
    for (size_t i = 0; i < rows.size(); ++i)
        keys[i] = *static_cast<const DenseStore*>(store)->key_of(rows[i]);
}

KeyRange DenseStore::range_of(uint64_t key) const noexcept {
    const auto next = std::ranges::upper_bound(owned_, key, {}, &KeyRange::begin);
    if (next == owned_.begin() || !std::prev(next)->contains(key)) return {};
    return *std::prev(next);
}

Status DenseStore::find_rows(std::span<const uint64_t> keys, std::span<uint32_t> rows) const {
    WEIR_CHECK(rows.size() == keys.size());
    KeyRange range;  // the owned range of the key before; sorted keys mostly stay in it
    uint32_t first_row_of_range = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
        const uint64_t key = keys[i];
        if (!range.contains(key)) {
            const auto next = std::ranges::upper_bound(owned_, key, {}, &KeyRange::begin);
            if (next == owned_.begin() || !std::prev(next)->contains(key)) {
                return Error(Errc::kOutOfRange,
                             fmt::format("dense table: key {} at index {} of the list is not this "
                                         "shard's, or beyond the table; ask for the view again",
                                         key, i));
            }
            range = *std::prev(next);
            first_row_of_range = first_rows_[static_cast<size_t>(next - owned_.begin()) - 1];
        }
        rows[i] = first_row_of_range + static_cast<uint32_t>(key - range.begin);
    }
    return {};
}

void DenseStore::put(std::span<const uint32_t> rows, const std::byte* values,
                     const std::byte* state) {
    put_rows(values_.view(), rows, values_.initial().size(), values);
    if (!unfilled_.empty()) [[unlikely]] {
        for (const uint32_t row : rows)
            note_written(row, 1);
    }
    if (state_) put_rows(state_->view(), rows, state_->initial().size(), state);
}

void DenseStore::pull_state(std::span<const uint32_t> rows, std::byte* out) const noexcept {
    if (state_) copy_rows(state_->view(), rows, state_->initial().size(), nullptr, out);
}

void DenseStore::pull(std::span<const uint32_t> rows, std::byte* out) const noexcept {
    copy_rows(values_.view(), rows, values_.initial().size(), values_.initial().data(), out);
}

}  // namespace weir

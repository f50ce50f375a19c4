// SPDX-License-Identifier: Apache-2.0
/// \file
/// TableShard: rows that are listed, come from elsewhere, and are dropped.

#include <algorithm>
#include <cstring>
#include <new>

#include <fmt/core.h>

#include "lib/store/rules/rule_registry.h"
#include "lib/store/table.h"

namespace weir {
namespace {

/// Buckets of a sparse table that one step reads at most: some 50 us.
constexpr size_t kStepBuckets = size_t{1} << 11;
/// Of which one step drops rows, which are reset, too: some 25 us.
constexpr size_t kDropBuckets = size_t{1} << 9;

}  // namespace

// Listing.

void TableShard::list(KeyCursor& cursor, const PositionSet& positions, size_t row_count_max,
                      ListedRows& listed) const {
    list_all(cursor, positions, row_count_max, listed);
    if (layout_.has_stamps()) leave_out_empty(listed);
}

void TableShard::list_all(KeyCursor& cursor, const PositionSet& positions, size_t row_count_max,
                          ListedRows& listed) const {
    listed.range = {};
    listed.keys.clear();
    listed.rows.clear();
    listed.run = {};
    if (const auto* sparse = std::get_if<SparseStore>(&*store_)) {
        return sparse->list(cursor, positions, row_count_max, kStepBuckets, listed.keys,
                            listed.rows);
    }
    if (cursor.at_end) return;
    const auto& dense = std::get<DenseStore>(*store_);
    const std::vector<KeyRange> wanted = positions.dense_keys(schema_.key_count);
    for (const KeyRange held : dense.owned()) {
        for (const KeyRange range : wanted) {
            KeyRange both = intersect(held, range);
            both.begin = std::max(both.begin, cursor.next);
            if (both.empty()) continue;
            both.end = std::min(both.end, both.begin + std::min(both.key_count(), row_count_max));
            listed.range = both;
            cursor.next = both.end;
            return;
        }
    }
    cursor.at_end = true;
}

bool TableShard::list_by_row(KeyCursor& cursor, const PositionSet& positions, size_t row_count_max,
                             ListedRows& listed) {
    constexpr size_t kRowsLooked = size_t{1} << 16;
    listed.range = {};
    listed.keys.clear();
    listed.rows.clear();
    listed.run = {};
    // Where all rows are wanted, nobody needs to look at their keys.
    const PositionSet everywhere = PositionSet::whole_ring();
    const bool is_all = !drop_cursor_ && owned_.without(positions).ranges().empty();
    auto& sparse = std::get<SparseStore>(*store_);
    const bool is_listed = sparse.list_by_row(memory_, cursor, is_all ? everywhere : positions,
                                              std::min(row_count_max, kRowsLooked), kRowsLooked,
                                              listed.keys, listed.rows, listed.run);
    if (is_listed && layout_.has_stamps()) leave_out_empty(listed);
    return is_listed;
}

void TableShard::copy_keys(const ListedRows& listed, std::span<std::byte> out) const {
    WEIR_CHECK(out.size() == listed.row_count() * sizeof(uint64_t));
    if (listed.run.row_count != 0)
        return std::get<SparseStore>(*store_).pull_keys_of_run(listed.run, out.data());
    if (!out.empty()) std::memcpy(out.data(), listed.keys.data(), out.size());
}

void TableShard::copy_values(const ListedRows& listed, std::span<std::byte> out) const {
    WEIR_CHECK(out.size() == listed.row_count() * pulled_row_bytes_);
    if (listed.row_count() == 0) return;
    if (listed.run.row_count != 0)
        return std::get<SparseStore>(*store_).pull_run(listed.run, out.data());
    if (listed.range.empty()) return copy_values(listed.rows, out);
    const auto& dense = std::get<DenseStore>(*store_);
    std::memcpy(out.data(), dense.values(*dense.first_row(listed.range)), out.size());
}

void TableShard::copy_state(const ListedRows& listed, std::span<std::byte> out) const {
    WEIR_CHECK(out.size() == listed.row_count() * layout_.state_bytes);
    if (out.empty()) return;
    if (listed.run.row_count != 0)
        return std::get<SparseStore>(*store_).pull_state_of_run(listed.run, out.data());
    if (listed.range.empty()) return copy_state(listed.rows, out);
    const auto& dense = std::get<DenseStore>(*store_);
    std::memcpy(out.data(), dense.state(*dense.first_row(listed.range)), out.size());
}

void TableShard::copy_values(std::span<const uint32_t> rows, std::span<std::byte> out) const {
    WEIR_CHECK(out.size() == rows.size() * pulled_row_bytes_);
    std::visit([&](const auto& store) { store.pull(rows, out.data()); }, *store_);
}

void TableShard::copy_state(std::span<const uint32_t> rows, std::span<std::byte> out) const {
    WEIR_CHECK(out.size() == rows.size() * layout_.state_bytes);
    if (out.empty()) return;
    std::visit([&](const auto& store) { store.pull_state(rows, out.data()); }, *store_);
}

// A snapshot.

Status TableShard::keep_snapshot() {
    WEIR_CHECK(kept_ == nullptr);
    try {
        kept_ = std::visit([](const auto& store) { return store.keep_rows(); }, *store_);
    } catch (const std::bad_alloc&) {
        return refused(Errc::kNoMemory, "no memory to keep its rows for a checkpoint");
    }
    if (drop_cursor_) kept_->spoil();
    return {};
}

void TableShard::list_snapshot(KeyCursor& cursor, const PositionSet& positions,
                               size_t row_count_max, ListedRows& listed) const {
    list_all(cursor, positions, row_count_max, listed);
    if (!listed.range.empty()) {
        const auto row = std::get<DenseStore>(*store_).first_row(listed.range);
        const size_t row_count = kept_->whole_units(row.value_or(0), listed.range.key_count());
        cursor.next = listed.range.end = listed.range.begin + row_count;
        return;
    }
    for (const uint32_t row : listed.rows)
        kept_->prefetch_place(row);
    const RowTarget table = target();
    size_t count = 0;
    for (size_t i = 0; i < listed.keys.size(); ++i) {
        if (!kept_->is_to_read(listed.rows[i])) continue;  // it came later
        if (layout_.has_stamps() &&
            RowStamps::in(kept_->state_of(table, listed.rows[i]), layout_) == 0)
            continue;  // it was empty then
        listed.keys[count] = listed.keys[i];
        listed.rows[count++] = listed.rows[i];
        kept_->prefetch_row(table, listed.rows[i]);
    }
    listed.keys.resize(count);
    listed.rows.resize(count);
}

void TableShard::read_snapshot(const ListedRows& listed, std::span<std::byte> values,
                               std::span<std::byte> state) {
    WEIR_CHECK(values.size() == listed.row_count() * pulled_row_bytes_);
    WEIR_CHECK(state.size() == listed.row_count() * layout_.state_bytes);
    if (!listed.range.empty()) {
        const auto& dense = std::get<DenseStore>(*store_);
        if (const auto row = dense.first_row(listed.range)) {
            kept_->read(target(), *row, listed.range.key_count(), values.data(), state.data());
        } else {
            kept_->spoil();
        }
        return;
    }
    const RowTarget table = target();
    for (size_t i = 0; i < listed.rows.size(); ++i) {
        kept_->read(table, listed.rows[i], 1, values.data() + i * pulled_row_bytes_,
                    state.data() + i * layout_.state_bytes);
    }
}

// Taking.

Status TableShard::check_taken(uint64_t key_count, std::span<const std::byte> values,
                               std::span<const std::byte> state) const {
    const size_t state_bytes = layout_.state_bytes;
    const bool values_fit =
        values.size() % pulled_row_bytes_ == 0 && values.size() / pulled_row_bytes_ == key_count;
    const bool state_fits = state_bytes == 0 ? state.empty()
                                             : state.size() % state_bytes == 0 &&
                                                   state.size() / state_bytes == key_count;
    if (values_fit && state_fits) return {};
    return refused(
        Errc::kInvalidArgument,
        fmt::format("{} rows come with {} bytes of values and {} of state; they need "
                    "{} and {} per row",
                    key_count, values.size(), state.size(), pulled_row_bytes_, state_bytes));
}

Status TableShard::take(KeyRange keys, std::span<const std::byte> values,
                        std::span<const std::byte> state) {
    WEIR_TRY(check_taken(keys.key_count(), values, state));
    return for_extents(keys, 1, [&](uint32_t row, uint64_t row_count, size_t at) -> Status {
        auto& dense = std::get<DenseStore>(*store_);
        std::memcpy(dense.values(row), values.data() + at * pulled_row_bytes_,
                    row_count * pulled_row_bytes_);
        dense.note_written(row, row_count);
        if (state.empty()) return {};
        std::memcpy(dense.state(row), state.data() + at * layout_.state_bytes,
                    row_count * layout_.state_bytes);
        return {};
    });
}

Status TableShard::take(std::span<const uint64_t> keys, std::span<const std::byte> values,
                        std::span<const std::byte> state) {
    WEIR_TRY(check_taken(keys.size(), values, state));
    forget_made();
    for (size_t begin = 0; begin < keys.size(); begin += kBlockKeys) {
        const size_t count = std::min(kBlockKeys, keys.size() - begin);
        const std::span<const uint64_t> block = copy_block(keys.subspan(begin, count));
        WEIR_TRY(check_held(block));
        if (has_empty(state.subspan(begin * layout_.state_bytes, count * layout_.state_bytes))) {
            WEIR_TRY(take_with_empty(block, values.data() + begin * pulled_row_bytes_,
                                     state.data() + begin * layout_.state_bytes));
            continue;
        }
        if (scratch_rows_.size() < count) scratch_rows_.resize(count);
        const std::span rows(scratch_rows_.data(), count);
        WEIR_TRY(look_up_block(block, true, rows));
        const std::byte* const from = values.data() + begin * pulled_row_bytes_;
        const std::byte* const state_from =
            state.empty() ? nullptr : state.data() + begin * layout_.state_bytes;
        put(rows, from, state_from);
    }
    return {};
}

Status TableShard::take(const RowList& list, std::span<const std::byte> values,
                        std::span<const std::byte> state) {
    WEIR_TRY(check_taken(list.rows.size(), values, state));
    const std::byte* const state_from = state.empty() ? nullptr : state.data();
    put(list.rows, values.data(), state_from);
    return {};
}

void TableShard::put(std::span<const uint32_t> rows, const std::byte* values,
                     const std::byte* state) {
    if (layout_.has_stamps()) [[unlikely]]
        written_ += stamps().raise(rows, 1);  // until the store has their own
    std::visit([&](auto& store) { store.put(rows, values, state); }, *store_);
}

Result<RowList> TableShard::rows_to_take(std::span<const uint64_t> keys) {
    return rows_of(keys, For::kStream);
}

Result<RowList> TableShard::known_rows_to_take(const ListId& id) {
    return known_rows(id, For::kStream, nullptr);
}

// Positions that come and go.

bool TableShard::fill_some(const PositionSet& positions) {
    auto* const dense = std::get_if<DenseStore>(&*store_);
    if (dense == nullptr || dense->unfilled_rows() == 0) return false;
    size_t rows_max = std::max<size_t>(1, kFilledValuesMax / layout_.width);
    const std::vector<KeyRange> wanted = positions.dense_keys(schema_.key_count);
    return !std::ranges::all_of(wanted,
                                [&](KeyRange keys) { return dense->fill_some(keys, rows_max); });
}

bool TableShard::prepare(const PositionSet& positions, size_t& bytes) {
    if (drop_cursor_) {
        drop_some();
        return true;
    }
    if (schema_.layout == Layout::kSparse) return false;
    for (const KeyRange range : positions.without(owned_).dense_keys(schema_.key_count))
        bytes += range.key_count() * (pulled_row_bytes_ + layout_.state_bytes);
    return memory_.prepare(bytes);
}

Status TableShard::hold(const PositionSet& positions) {
    while (drop_some()) {
    }
    const PositionSet fresh = positions.without(owned_);
    const PositionSet after = owned_.with(fresh);
    auto* dense = std::get_if<DenseStore>(&*store_);
    if (dense != nullptr) WEIR_TRY(dense->add(fresh.dense_keys(schema_.key_count)));
    Status reserved = schema_.max_delay > 0 ? reserve_window(after) : Status();
    if (!reserved) {
        if (dense != nullptr) {
            for (const KeyRange keys : fresh.dense_keys(schema_.key_count))
                dense->drop(keys);
        }
        return reserved;
    }
    own(after);
    return {};
}

void TableShard::give_up(const PositionSet& positions) {
    forget_lists(PositionSlices(positions));
    served_ = served_.without(positions);
    if (kept_ != nullptr) kept_->spoil();
    own(owned_.without(positions));
    if (auto* dense = std::get_if<DenseStore>(&*store_)) {
        for (const KeyRange given_up : positions.dense_keys(schema_.key_count)) {
            const std::vector<KeyRange> held(dense->owned().begin(), dense->owned().end());
            for (const KeyRange range : held)
                dense->drop(intersect(range, given_up));
        }
    } else {
        drop_cursor_ = KeyCursor{};
    }
}

bool TableShard::drop_some() {
    if (!drop_cursor_) return false;
    auto& sparse = std::get<SparseStore>(*store_);
    if (!layout_.has_stamps()) {
        sparse.drop_outside(*drop_cursor_, owned_, kDropBuckets);
    } else {
        const auto drops = [&, at = stamps()](uint64_t key, uint32_t row) {
            if (owned_.contains(PositionMap::sparse().position(key))) return false;
            if (at.is_written(row)) --written_;
            return true;
        };
        sparse.drop_if(*drop_cursor_, drops, kDropBuckets);
    }
    if (drop_cursor_->at_end) drop_cursor_.reset();
    return drop_cursor_.has_value();
}

void TableShard::own(const PositionSet& positions) {
    owned_ = positions;
    owns_all_ = owned_.is_whole_ring();
    serves_held_ = served_ == owned_;
}

void TableShard::serve(const PositionSet& positions) {
    const PositionSet lost = served_.without(positions);
    if (!lost.ranges().empty()) forget_lists(PositionSlices(lost));
    served_ = positions;
    serves_held_ = served_ == owned_;
}

void TableShard::forget_lists(const PositionSlices& positions) noexcept {
    for (const For use : {For::kPush, For::kStream})
        lists_.forget(lists_of(use), positions);
}

/// Notes the positions of ascending keys, for a list that will be remembered.
void TableShard::touch(std::span<const uint64_t> keys) noexcept {
    if (schema_.layout == Layout::kSparse) {
        constexpr size_t kSome = 256;  // 2,000 random keys have met all slices
        for (size_t begin = 0; begin < keys.size() && !touched_.is_whole_ring(); begin += kSome) {
            for (const uint64_t key : keys.subspan(begin, std::min(kSome, keys.size() - begin)))
                touched_.add(PositionMap::sparse().position(key));
        }
        return;
    }
    const PositionMap map = PositionMap::dense(schema_.key_count);
    for (auto key = keys.begin(); key != keys.end();) {
        const PositionRange slice = PositionSlices::slice_of(map.position(*key));
        touched_.add(slice.first);
        key = std::lower_bound(key, keys.end(), map.end_key_at(slice.last));
    }
}

/// Marks the segments of `held` that ascending keys are in.
void TableShard::mark(std::span<const uint64_t> keys, const SegmentList& held) {
    SegmentMarks& marks = lists_.marks();
    if (schema_.layout == Layout::kSparse) {
        // Random keys soon lie in all segments.
        constexpr size_t kSome = 512;
        for (size_t begin = 0; begin < keys.size() && !marks.has_all(); begin += kSome) {
            for (const uint64_t key : keys.subspan(begin, std::min(kSome, keys.size() - begin))) {
                const uint32_t segment = held.find(PositionMap::sparse().position(key));
                if (segment != SegmentList::kNone) marks.mark(segment);
            }
        }
        return;
    }
    const PositionMap map = PositionMap::dense(schema_.key_count);
    for (auto key = keys.begin(); key != keys.end();) {
        const uint32_t segment = held.find(map.position(*key++));
        if (segment == SegmentList::kNone) continue;
        marks.mark(segment);
        // The keys that follow in the same segment are skipped: a position costs a division.
        key = std::lower_bound(key, keys.end(), map.end_key_at(held.segments()[segment].last));
    }
}

}  // namespace weir

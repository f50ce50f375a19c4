// SPDX-License-Identifier: Apache-2.0
/// \file
/// TableShard: rows of an erasable table that end, and the vacuum.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "lib/key/narrow_values.h"
#include "lib/store/table.h"

namespace weir {
namespace {

/// That one step of the vacuum reads: some 25 us.
constexpr size_t kVacuumBuckets = size_t{1} << 9;

/// In a row, while new rows come faster: some 3 ms.
constexpr size_t kVacuumStepsMax = 128;

/// A walk of the vacuum ends before the table has got a sixteenth more rows than it had at its beginning.
constexpr double kVacuumPace = 16;

}  // namespace

Result<RowList> TableShard::rows_to_erase(std::span<const uint64_t> keys, const SegmentList* held) {
    return rows_of(keys, For::kPull, held);
}

/// Whether all its values are smaller in size.
bool TableShard::is_below(uint32_t row, double bound) const {
    const std::byte* const at = target().values.at(row);
    const auto all_below = [&](const auto* values) {
        return std::all_of(values, values + schema_.width, [bound](auto value) {
            return std::abs(static_cast<double>(value)) < bound;
        });
    };
    if (is_narrow(schema_.value_type)) {
        std::vector<float> values(schema_.width);
        widen(schema_.value_type, {at, pulled_row_bytes_}, values.data());
        return all_below(values.data());
    }
    return with_value_type(schema_.value_type,
                           [&]<class T>() { return all_below(reinterpret_cast<const T*>(at)); });
}

Status TableShard::erase(const Entries& entries, std::optional<uint32_t> before,
                         std::optional<double> below) {
    if (entries.is_range || !layout_.has_stamps())
        return refused(Errc::kInvalidArgument, "only rows of erasable tables end, by their keys");
    some_rows_.clear();
    for (const RowStamps at = stamps(); const uint32_t row : entries.list.rows) {
        if (at.is_written(row) && (!before || at.of(row) < *before) &&
            (!below || is_below(row, *below)))
            some_rows_.push_back(row);
    }
    reset(some_rows_);
    return {};
}

/// Makes rows empty.
void TableShard::reset(std::span<const uint32_t> rows) {
    if (kept_ != nullptr) kept_->keep(target(), rows);
    for (const RowStamps at = stamps(); const uint32_t row : rows)
        written_ -= at.is_empty(row) ? 0 : 1;
    std::get<SparseStore>(*store_).reset(rows);
}

// Rows that are listed, or come from elsewhere.

void TableShard::leave_out_empty(ListedRows& listed) const {
    const RowStamps at = stamps();
    if (const RowStore::Run run = listed.run; run.row_count != 0) {
        uint32_t full = 0;
        while (full < run.row_count && !at.is_empty(run.first_row + full))
            ++full;
        if (full == run.row_count) return;
        listed.keys.resize(run.row_count);
        listed.rows.resize(run.row_count);
        std::get<SparseStore>(*store_).pull_keys_of_run(
            run, reinterpret_cast<std::byte*>(listed.keys.data()));
        std::iota(listed.rows.begin(), listed.rows.end(), run.first_row);
        listed.run = {};
    }
    size_t kept = 0;
    for (size_t i = 0; i < listed.keys.size(); ++i) {
        if (at.is_empty(listed.rows[i])) continue;
        listed.keys[kept] = listed.keys[i];
        listed.rows[kept++] = listed.rows[i];
    }
    listed.keys.resize(kept);
    listed.rows.resize(kept);
}

void TableShard::copy_stamps(const ListedRows& listed, std::span<std::byte> out) const {
    WEIR_CHECK(out.size() == listed.row_count() * sizeof(uint32_t) && layout_.has_stamps());
    const RowStamps at = stamps();
    const bool is_run = listed.run.row_count != 0;
    for (size_t i = 0; i < listed.row_count(); ++i) {
        const uint32_t stamp =
            at.of(is_run ? listed.run.first_row + static_cast<uint32_t>(i) : listed.rows[i]);
        std::memcpy(out.data() + i * sizeof stamp, &stamp, sizeof stamp);
    }
}

bool TableShard::has_empty(std::span<const std::byte> state) const noexcept {
    if (!layout_.has_stamps()) return false;
    for (size_t at = 0; at + layout_.state_bytes <= state.size(); at += layout_.state_bytes) {
        if (RowStamps::in(state.data() + at, layout_) == 0) return true;
    }
    return false;
}

/// Rows of `keys`, of which some are empty: those make no row.
Status TableShard::take_with_empty(std::span<const uint64_t> keys, const std::byte* values,
                                   const std::byte* state) {
    const size_t value_bytes = pulled_row_bytes_;
    const size_t state_bytes = layout_.state_bytes;
    std::vector<uint64_t> empty;
    std::vector<std::byte> its_values;
    std::vector<std::byte> its_state;
    some_keys_.clear();
    for (size_t i = 0; i < keys.size(); ++i) {
        if (RowStamps::in(state + i * state_bytes, layout_) == 0) {
            empty.push_back(keys[i]);
            continue;
        }
        some_keys_.push_back(keys[i]);
        its_values.insert(its_values.end(), values + i * value_bytes,
                          values + (i + 1) * value_bytes);
        its_state.insert(its_state.end(), state + i * state_bytes, state + (i + 1) * state_bytes);
    }
    some_rows_.resize(some_keys_.size());
    WEIR_TRY(look_up_block(some_keys_, true, some_rows_));
    put(some_rows_, its_values.data(), its_state.data());
    some_rows_.resize(empty.size());
    std::get<SparseStore>(*store_).find_rows(empty, some_rows_);
    std::erase(some_rows_, kNoRow);
    reset(some_rows_);
    return {};
}

// The vacuum.

bool TableShard::has_many_empty() const noexcept {
    constexpr size_t kRowsMin = 8;
    const size_t rows = std::get<SparseStore>(*store_).row_count();
    const size_t empty = rows - std::min(rows, written_);
    return empty >= kRowsMin && 4 * empty >= rows && empty >= 2 * left_empty_;
}

bool TableShard::is_in_a_sum(uint32_t row) const noexcept {
    return std::ranges::any_of(aggregates_, [row](const std::optional<Aggregate>& aggregate) {
        return aggregate && aggregate->has(row);
    });
}

void TableShard::vacuum_some() {
    if (!wants_vacuum()) return;
    auto& store = std::get<SparseStore>(*store_);
    if (!vacuum_) vacuum_.emplace(Vacuum{.cursor = {}, .row_count = store.row_count(), .left = 0});
    Vacuum& walk = *vacuum_;
    bool frees_rows = false;
    const auto drops = [&, at = stamps()](uint64_t, uint32_t row) {
        if (!at.is_empty(row)) return false;
        const bool is_free = !is_in_a_sum(row);
        walk.left += is_free ? 0 : 1;
        frees_rows |= is_free;
        return is_free;
    };
    const auto is_behind = [&] {
        const double done = std::ldexp(static_cast<double>(walk.cursor.next), -64);
        return done * static_cast<double>(walk.row_count) <
               kVacuumPace * static_cast<double>(store.keys_made_in_walk());
    };
    for (size_t steps = 0; steps == 0 || (steps < kVacuumStepsMax && is_behind()); ++steps) {
        store.drop_if(walk.cursor, drops, kVacuumBuckets);
        if (walk.cursor.at_end) break;
    }
    if (frees_rows) forget_lists();
    if (!walk.cursor.at_end) return;
    left_empty_ = walk.left;
    vacuum_.reset();
}

}  // namespace weir

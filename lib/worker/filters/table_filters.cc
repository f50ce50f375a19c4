// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/filters/table_filters.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "lib/base/check.h"
#include "lib/filter/bitmap.h"

namespace weir {
namespace {

CallKeys keys_of(const Operation& push) noexcept {
    return push.by_range ? CallKeys(push.range) : CallKeys(push.keys);
}

/// `packed` has rows for the bits of `kept`.
void put_in_place(std::span<const std::byte> kept, std::span<const std::byte> packed,
                  size_t row_bytes, std::byte* rows) noexcept {
    const std::byte* from = packed.data();
    for_each_bit(kept, [&](size_t i) {
        std::memcpy(rows + i * row_bytes, from, row_bytes);
        from += row_bytes;
    });
    WEIR_CHECK(from == packed.data() + packed.size());
}

}  // namespace

std::shared_ptr<SelectedRows> HeldRows::take_all() {
    auto all = std::make_shared<SelectedRows>();
    std::vector<std::byte> values;
    held().take_all(all->keys, values);
    all->values = std::make_unique_for_overwrite<std::byte[]>(values.size());
    std::ranges::copy(values, all->values.get());
    return all;
}

void HeldRows::put_back(const SelectedRows& all) {
    MergedRows merged;
    const CallKeys keys(all.keys);
    const std::span<const std::byte> values(all.values.get(), all.keys.size() * rows_.row_bytes());
    held().merge(keys, values, merged);
    std::vector<std::byte> none;
    reset_bits(none, keys.size());
    held().settle(keys, merged.slots, merged.values, none);
}

void TableFilters::begin() {
    was_flushed_ = held_.is_flushed;
    may_change_held_ = selector_ != nullptr || held_.count() > 0;
    if (may_change_held_) held_.held().begin_call();
}

void TableFilters::end() {
    if (may_change_held_) held_.held().end_call();
}

void TableFilters::undo() {
    if (may_change_held_) held_.held().undo();
    held_.is_flushed = was_flushed_;
}

Result<std::unique_ptr<TableFilters>> TableFilters::make(const Filters& filters,
                                                         const ValueCodec* own, HeldRows& held,
                                                         const Clock& clock, uint64_t seed) {
    WEIR_ASSIGN(std::unique_ptr<Selector> selector,
                filters.make_selector(held.rows(), clock, seed));
    return std::unique_ptr<TableFilters>(new TableFilters(filters, own, held, std::move(selector)));
}

Result<bool> TableFilters::select(Operation& push, FilterTraffic& traffic) {
    const bool takes_along = held_.is_flushed && push.is_part() && held_.count() > 0;
    if (push.is_part()) held_.is_flushed = false;
    if (selector_ == nullptr && !takes_along) return false;
    const auto rows = std::make_shared<SelectedRows>();
    if (takes_along) {
        take_held_along(push, *rows);
        WEIR_TRY(check_finite());
    } else {
        if (push.count() == 0) return false;
        WEIR_TRY(selector_->select(held_.rows(), {keys_of(push), push.values}, held_.held(),
                                   selection_));
        WEIR_TRY(check_finite());
        const size_t count = push.count();
        const size_t bytes = count * push.row_bytes;
        rows->values = std::make_unique_for_overwrite<std::byte[]>(bytes);
        if (selection_.kept_count == count) {
            std::memcpy(rows->values.get(), selection_.values.data(), bytes);
        } else {
            rows->kept = selection_.kept;
            put_in_place(rows->kept, selection_.values, push.row_bytes, rows->values.get());
        }
        push.values = {rows->values.get(), bytes};
        traffic.note_selected(count, selection_.kept_count, push.row_bytes);
    }
    push.own_extras().selected = rows;
    return takes_along;
}

Status TableFilters::check_finite() const {
    const std::optional<uint64_t> key = held_.held().overflowed_key();
    if (!key) return {};
    return Error(Errc::kNotFinite,
                 fmt::format("key {}: what is held back of it and what is pushed now are an "
                             "infinity together; flush() more often, or push smaller values",
                             *key));
}

/// All that is held, and all of the push, whatever the selectors would say.
void TableFilters::take_held_along(Operation& push, SelectedRows& rows) {
    HeldBack& held = held_.held();
    const CallKeys keys = keys_of(push);
    const size_t row_bytes = push.row_bytes;
    if (keys.size() > 0) {
        held.merge(keys, push.values, merged_);
        std::vector<std::byte> all;
        reset_bits(all, keys.size(), true);
        held.settle(keys, merged_.slots, merged_.values, all);
    }
    held.take_all(held_keys_, held_values_);  // of other keys
    const size_t count = keys.size() + held_keys_.size();
    rows.keys.reserve(count);
    rows.values = std::make_unique_for_overwrite<std::byte[]>(count * row_bytes);
    std::byte* to = rows.values.get();
    const auto add = [&](uint64_t key, const std::byte* row) {
        rows.keys.push_back(key);
        std::memcpy(to, row, row_bytes);
        to += row_bytes;
    };
    size_t next = 0;
    for (size_t i = 0; i < held_keys_.size(); ++i) {
        for (; next < keys.size() && keys[next] < held_keys_[i]; ++next)
            add(keys[next], merged_.values.data() + next * row_bytes);
        add(held_keys_[i], held_values_.data() + i * row_bytes);
    }
    for (; next < keys.size(); ++next)
        add(keys[next], merged_.values.data() + next * row_bytes);
    push.by_range = false;
    push.keys = rows.keys;
    push.values = {rows.values.get(), count * row_bytes};
}

}  // namespace weir

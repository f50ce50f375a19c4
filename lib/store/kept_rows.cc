// SPDX-License-Identifier: Apache-2.0
#include "lib/store/kept_rows.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "lib/base/check.h"
#include "lib/store/rules/rule_kernels.h"

namespace weir {

KeptRows::KeptRows(Layout layout)
    : layout_(std::move(layout)),
      slot_bytes_(
          std::max<size_t>(1, layout_.unit_rows * (layout_.value_bytes + layout_.state_bytes))),
      block_slots_(std::max<size_t>(1, kBlockBytes / slot_bytes_)) {
    if (layout_.present.empty()) layout_.present.emplace_back(0, layout_.row_end);
    const size_t units = (size_t{layout_.row_end} + layout_.unit_rows - 1) / layout_.unit_rows;
    places_.reset(static_cast<uint32_t*>(std::calloc(units + 1, sizeof(uint32_t))));
    if (places_ == nullptr) throw std::bad_alloc();
}

void KeptRows::leave_out(uint32_t first, size_t row_count) noexcept {
    WEIR_CHECK(layout_.unit_rows == 1);
    for (size_t row = first; row < std::min<size_t>(first + row_count, layout_.row_end); ++row)
        places_[row] = kDone;
}

void KeptRows::prefetch_row(const RowTarget& table, uint32_t row) noexcept {
    if (const uint32_t place = places_[row]; place >= kSlots) {
        kernels::prefetch_row(slot(place - kSlots), layout_.value_bytes + layout_.state_bytes);
        return;
    }
    kernels::prefetch_row(table.values.at(row), layout_.value_bytes);
    if (layout_.state_bytes != 0) kernels::prefetch_row(table.state.at(row), layout_.state_bytes);
}

void KeptRows::keep(const RowTarget& table, uint32_t first, size_t row_count) noexcept {
    if (first >= layout_.row_end || row_count == 0) return;
    const size_t last = std::min<size_t>(first + row_count, layout_.row_end) - 1;
    for (size_t unit = first / layout_.unit_rows; unit <= last / layout_.unit_rows; ++unit) {
        if (places_[unit] == kAsItWas) keep_unit(table, static_cast<uint32_t>(unit));
    }
}

void KeptRows::keep(const RowTarget& table, std::span<const uint32_t> rows) noexcept {
    constexpr size_t kAhead = kernels::kRowsAhead;
    for (size_t i = 0; i < std::min(kAhead, rows.size()); ++i)
        prefetch_place(rows[i]);
    for (size_t i = 0; i < rows.size(); ++i) {
        if (i + kAhead < rows.size()) prefetch_place(rows[i + kAhead]);
        keep(table, rows[i], 1);
    }
}

uint32_t KeptRows::take_slot() {
    if (!free_slots_.empty()) {
        const uint32_t number = free_slots_.back();
        free_slots_.pop_back();
        return number;
    }
    if (slot_count_ == blocks_.size() * block_slots_) {
        // So that read() takes no memory.
        const size_t slots = (blocks_.size() + 1) * block_slots_;
        if (slots > free_slots_.capacity())
            free_slots_.reserve(std::max(slots, 2 * free_slots_.capacity()));
        blocks_.emplace_back(block_slots_ * slot_bytes_);
        populated_ = 0;
    }
    const size_t end = (slot_count_ % block_slots_ + 1) * slot_bytes_;
    populated_ = populate_up_to(blocks_.back(), end, populated_);
    return slot_count_++;
}

void KeptRows::keep_unit(const RowTarget& table, uint32_t unit) noexcept {
    if (is_spoilt_) return;
    try {
        const uint32_t number = take_slot();
        const uint32_t first = unit * layout_.unit_rows;
        const uint64_t end = uint64_t{first} + layout_.unit_rows;
        copy_present(table, first, static_cast<uint32_t>(std::min<uint64_t>(end, layout_.row_end)),
                     slot(number));
        places_[unit] = number + kSlots;
    } catch (const std::bad_alloc&) {
        spoil();
    }
}

/// The rows of a unit that have memory.
void KeptRows::copy_present(const RowTarget& table, uint32_t first, uint32_t end, std::byte* to) {
    std::byte* const state = to + layout_.unit_rows * layout_.value_bytes;
    auto range = std::ranges::upper_bound(layout_.present, first, {},
                                          &std::pair<uint32_t, uint32_t>::second);
    for (; range != layout_.present.end() && range->first < end; ++range) {
        const uint32_t from = std::max(first, range->first);
        const uint32_t row_count = std::min(end, range->second) - from;
        copy(table.values, from, row_count, layout_.value_bytes,
             to + (from - first) * layout_.value_bytes);
        copy(table.state, from, row_count, layout_.state_bytes,
             state + (from - first) * layout_.state_bytes);
    }
}

void KeptRows::copy(const RowView& rows, uint32_t first, size_t row_count, size_t row_bytes,
                    std::byte* to) noexcept {
    if (row_bytes == 0) return;
    if (rows.stride_bytes != row_bytes) {
        for (size_t i = 0; i < row_count; ++i)
            std::memcpy(to + i * row_bytes, rows.at(first + static_cast<uint32_t>(i)), row_bytes);
        return;
    }
    for (size_t done = 0; done < row_count;) {
        const auto row = first + static_cast<uint32_t>(done);
        const size_t some = std::min<size_t>(row_count - done, rows.run(row));
        std::memcpy(to + done * row_bytes, rows.at(row), some * row_bytes);
        done += some;
    }
}

void KeptRows::read(const RowTarget& table, uint32_t first, size_t row_count, std::byte* values,
                    std::byte* state) noexcept {
    const size_t end = first + row_count;
    for (size_t row = first; row < end && !is_spoilt_;) {
        const auto unit = static_cast<uint32_t>(row / layout_.unit_rows);
        const size_t unit_first = size_t{unit} * layout_.unit_rows;
        const size_t unit_end = std::min<size_t>(unit_first + layout_.unit_rows, layout_.row_end);
        const size_t some = std::min(end, unit_end) - row;
        const bool is_whole = row == unit_first && row + some == unit_end;
        if (!is_whole && places_[unit] == kAsItWas) keep_unit(table, unit);  // the rest comes later
        std::byte* const to = values + (row - first) * layout_.value_bytes;
        std::byte* const state_to = state + (row - first) * layout_.state_bytes;
        if (const uint32_t place = places_[unit]; place >= kSlots) {
            const std::byte* const from = slot(place - kSlots);
            const size_t skipped = row - unit_first;
            std::memcpy(to, from + skipped * layout_.value_bytes, some * layout_.value_bytes);
            if (layout_.state_bytes != 0) {
                std::memcpy(
                    state_to,
                    from + layout_.unit_rows * layout_.value_bytes + skipped * layout_.state_bytes,
                    some * layout_.state_bytes);
            }
            if (is_whole) free_slots_.push_back(place - kSlots);
        } else {
            copy(table.values, static_cast<uint32_t>(row), some, layout_.value_bytes, to);
            copy(table.state, static_cast<uint32_t>(row), some, layout_.state_bytes, state_to);
        }
        if (is_whole) places_[unit] = kDone;
        row += some;
    }
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// KeptRows: the rows of a table as they were at one instant, while the table goes on changing.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/machine/pages.h"
#include "lib/store/row_store.h"
#include "lib/store/rules/rule.h"

namespace weir {

/// Before a row changes for the first time, it is copied here, with the rows of its unit; unless it
/// was read before. Whoever reads the rows so gets all of them as of the instant at which this was
/// made, and only what changes meanwhile is copied twice. If there is no memory for a copy, the rows
/// are *spoilt*: the table goes on, and what is read counts for nothing.
///
/// Thread: owning shard
class KeptRows {
public:
    struct Layout {
        uint32_t row_end = 0;    ///< one past the last row of the table
        uint32_t unit_rows = 1;  ///< a power of two; no unit reaches into two granules
        size_t value_bytes = 0;  ///< of a row
        size_t state_bytes = 0;
        /// Rows that have memory, first and behind the last, ascending; without any: all.
        std::vector<std::pair<uint32_t, uint32_t>> present = {};
    };

    /// The size of a unit of rows that lie side by side.
    static constexpr size_t kUnitBytes = 4096;

    explicit KeptRows(Layout layout);

    /// These rows belong to nothing: they are not read, and not kept. Only where a unit is a row.
    void leave_out(uint32_t first, size_t row_count) noexcept;

    /// Whether a row was there, and was not read yet. Only where a unit is a row.
    [[nodiscard]] bool is_to_read(uint32_t row) const noexcept {
        return row < layout_.row_end && places_[row] != kDone;
    }

    /// Has the processor fetch what is_to_read() and prefetch_row() look at.
    void prefetch_place(uint32_t row) const noexcept {
        if (row < layout_.row_end) __builtin_prefetch(&places_[row]);
    }

    /// The state of a row that is_to_read(), as it was. Only where a unit is a row.
    [[nodiscard]] const std::byte* state_of(const RowTarget& table, uint32_t row) noexcept {
        const uint32_t place = places_[row];
        return place >= kSlots ? slot(place - kSlots) + layout_.value_bytes : table.state.at(row);
    }

    /// Has the processor fetch what read() will copy. Only where a unit is a row.
    void prefetch_row(const RowTarget& table, uint32_t row) noexcept;

    /// Some rows of `table` are about to change.
    void keep(const RowTarget& table, uint32_t first, size_t row_count) noexcept;

    void keep(const RowTarget& table, std::span<const uint32_t> rows) noexcept;

    /// How many of these rows to read at once: up to the end of a unit, if they reach one. Of a unit
    /// that is not read whole, the rest is kept.
    [[nodiscard]] size_t whole_units(uint32_t first, size_t row_count) const noexcept {
        const size_t end = (size_t{first} + row_count) / layout_.unit_rows * layout_.unit_rows;
        return end > first ? end - first : row_count;
    }

    /// Copies rows as they were. Each row is read once.
    /// Shape:   `values` has row_count * value_bytes bytes, `state` row_count * state_bytes
    void read(const RowTarget& table, uint32_t first, size_t row_count, std::byte* values,
              std::byte* state) noexcept;

    /// Rows are dropped, and their numbers may be used again.
    void spoil() noexcept { is_spoilt_ = true; }

    [[nodiscard]] bool is_spoilt() const noexcept { return is_spoilt_; }

    /// Units that were copied before they changed, and those of them that were not read yet.
    [[nodiscard]] size_t kept_count() const noexcept { return slot_count_ - free_slots_.size(); }

private:
    // What places_ says of a unit; a greater number: its copy is in slot number - kSlots.
    static constexpr uint32_t kAsItWas = 0;
    static constexpr uint32_t kDone = 1;
    static constexpr uint32_t kSlots = 2;
    static constexpr size_t kBlockBytes = size_t{64} << 10;

    struct Free {
        void operator()(uint32_t* places) const noexcept { std::free(places); }
    };

    [[nodiscard]] std::byte* slot(uint32_t number) noexcept {
        return blocks_[number / block_slots_].data() + number % block_slots_ * slot_bytes_;
    }

    [[nodiscard]] uint32_t take_slot();
    void keep_unit(const RowTarget& table, uint32_t unit) noexcept;
    void copy_present(const RowTarget& table, uint32_t first, uint32_t end, std::byte* to);
    static void copy(const RowView& rows, uint32_t first, size_t row_count, size_t row_bytes,
                     std::byte* to) noexcept;

    Layout layout_;
    size_t slot_bytes_;
    size_t block_slots_;
    std::unique_ptr<uint32_t[], Free> places_;  ///< of each unit; zeroed by the kernel when touched
    std::vector<PageBytes> blocks_;
    size_t populated_ = 0;  ///< bytes of the last block, from its beginning
    std::vector<uint32_t> free_slots_;
    uint32_t slot_count_ = 0;
    bool is_spoilt_ = false;
};

}  // namespace weir

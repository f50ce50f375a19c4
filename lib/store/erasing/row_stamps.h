// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RowStamps: when the rows of an erasable table were last pushed.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "lib/store/row_layout.h"
#include "lib/store/row_store.h"
#include "lib/store/rules/rule.h"

namespace weir {

/// A stamp is the last part of a row's state, so records, chunks and checkpoints carry it. 0: the row is
/// *empty*: its key reads as if it had never been pushed, and its values are the initial ones.
///
/// Thread: owning shard
class RowStamps {
public:
    /// Of a table whose layout has stamps.
    RowStamps(const RowTarget& table, const RowLayout& layout) noexcept : at_(table.state) {
        at_.offset_bytes += layout.state_bytes - layout.stamp_bytes;
        at_.flat = nullptr;
    }

    [[nodiscard]] uint32_t of(uint32_t row) const noexcept { return read(at_.at(row)); }

    [[nodiscard]] bool is_empty(uint32_t row) const noexcept { return of(row) == 0; }

    /// Whether a key has a row that is not empty.
    [[nodiscard]] bool is_written(uint32_t row) const noexcept {
        return row != kNoRow && !is_empty(row);
    }

    /// Rows keep the greater stamp. Returns how many were empty.
    size_t raise(std::span<const uint32_t> rows, uint32_t stamp) const noexcept {
        size_t were_empty = 0;
        for (const uint32_t row : rows)
            were_empty += raise(row, stamp);
        return were_empty;
    }

    size_t raise(uint32_t row, uint32_t stamp) const noexcept {
        std::byte* const at = at_.at(row);
        const uint32_t before = read(at);
        write(at, std::max(before, stamp));
        return before == 0 ? 1 : 0;
    }

    /// In the state of a row.
    [[nodiscard]] static uint32_t in(const std::byte* state, const RowLayout& layout) noexcept {
        return read(state + layout.state_bytes - layout.stamp_bytes);
    }

    static void put(std::byte* state, const RowLayout& layout, uint32_t stamp) noexcept {
        write(state + layout.state_bytes - layout.stamp_bytes, stamp);
    }

private:
    [[nodiscard]] static uint32_t read(const std::byte* at) noexcept {
        uint32_t stamp = 0;
        std::memcpy(&stamp, at, sizeof stamp);
        return stamp;
    }

    static void write(std::byte* at, uint32_t stamp) noexcept {
        std::memcpy(at, &stamp, sizeof stamp);
    }

    RowView at_;
};

/// Of what is pushed in an iteration.
[[nodiscard]] constexpr uint32_t stamp_of(uint64_t iteration) noexcept {
    return std::max<uint32_t>(static_cast<uint32_t>(iteration), 1);
}

}  // namespace weir

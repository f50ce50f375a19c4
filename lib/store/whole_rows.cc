// SPDX-License-Identifier: Apache-2.0
/// \file
/// TableShard: rows as they are stored, values and state, which workers read and set.

#include <algorithm>
#include <cstring>
#include <vector>

#include <fmt/core.h>

#include "lib/store/table.h"

namespace weir {
namespace {

/// Two columns, and the rows that are made of them side by side.
struct RowColumns {
    std::vector<std::byte> values;
    std::vector<std::byte> state;

    RowColumns(const RowLayout& layout, size_t row_count)
        : values(row_count * layout.value_bytes()), state(row_count * layout.state_bytes) {}
};

/// Calls copy(row, value, state) with the addresses of each row, of its values and its state.
template <class Byte, class Copy>
void for_each_row(const RowLayout& layout, size_t row_count, Byte* rows, RowColumns& columns,
                  Copy&& copy) {
    for (size_t i = 0; i < row_count; ++i) {
        copy(rows + i * layout.row_bytes(), columns.values.data() + i * layout.value_bytes(),
             columns.state.data() + i * layout.state_bytes);
    }
}

}  // namespace

Status TableShard::check_whole(size_t row_count, size_t bytes) const {
    if (bytes == row_count * layout_.row_bytes()) return {};
    return refused(Errc::kInvalidArgument,
                   fmt::format("{} rows in {} bytes; each has {} bytes of values and {} of state",
                               row_count, bytes, layout_.value_bytes(), layout_.state_bytes));
}

Status TableShard::pull_rows(const Entries& entries, std::span<std::byte> out) const {
    const size_t count = entries.count();
    WEIR_TRY(check_whole(count, out.size()));
    if (layout_.state_bytes == 0) return pull(entries, out);
    RowColumns columns(layout_, count);
    WEIR_TRY(pull(entries, columns.values));
    if (entries.is_range) {
        WEIR_TRY(for_extents(entries.range, layout_.state_bytes,
                             [&](uint32_t row, uint64_t row_count, size_t at) -> Status {
                                 const auto& dense = std::get<DenseStore>(*store_);
                                 std::memcpy(columns.state.data() + at, dense.state(row),
                                             row_count * layout_.state_bytes);
                                 return {};
                             }));
    } else {
        copy_state(entries.list.rows, columns.state);
    }
    for_each_row(layout_, count, out.data(), columns,
                 [&](std::byte* row, const std::byte* values, const std::byte* state) {
                     std::memcpy(row, values, layout_.value_bytes());
                     std::memcpy(row + layout_.value_bytes(), state, layout_.state_bytes);
                 });
    return {};
}

Status TableShard::push_rows(const Entries& entries, std::span<const std::byte> rows,
                             uint32_t stamp) {
    const size_t count = entries.count();
    WEIR_TRY(check_whole(count, rows.size()));
    RowColumns columns(layout_, count);
    for_each_row(layout_, count, rows.data(), columns,
                 [&](const std::byte* row, std::byte* values, std::byte* state) {
                     std::memcpy(values, row, layout_.value_bytes());
                     if (layout_.state_bytes != 0)
                         std::memcpy(state, row + layout_.value_bytes(), layout_.state_bytes);
                     if (layout_.has_stamps())
                         RowStamps::put(state, layout_,
                                        std::max(stamp, RowStamps::in(state, layout_)));
                 });
    if (!entries.is_range) {
        if (kept_ != nullptr) kept_->keep(target(), entries.list.rows);
        return take(entries.list, columns.values, columns.state);
    }
    if (kept_ != nullptr) {
        WEIR_TRY(for_extents(entries.range, 1, [&](uint32_t row, uint64_t row_count, size_t) {
            kept_->keep(target(), row, row_count);
            return Status();
        }));
    }
    return take(entries.range, columns.values, columns.state);
}

}  // namespace weir

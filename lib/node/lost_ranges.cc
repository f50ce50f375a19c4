// SPDX-License-Identifier: Apache-2.0
#include "lib/node/lost_ranges.h"

#include <algorithm>
#include <vector>

#include <fmt/core.h>

#include "lib/key/key_range.h"

namespace weir {
namespace {

/// The first of `ranges`, and how many more there are. Takes their names from `room`, which is not 0.
template <class Range, class ToText>
std::string list_of(std::span<const Range> ranges, const ToText& to_text, size_t& room) {
    const size_t named = std::min(ranges.size(), room);
    room -= named;
    std::string text;
    for (const Range& range : ranges.first(named))
        text += (text.empty() ? "" : ", ") + to_text(range);
    const size_t more = ranges.size() - named;
    if (more == 0) return text;
    return text + fmt::format(", and {} more {},", more, more == 1 ? "range" : "ranges");
}

std::string keys_text(std::span<const KeyRange> keys, const std::string& table, size_t& room) {
    if (room == 0) return fmt::format("keys of table '{}'", table);
    const auto to_text = [](KeyRange range) {
        return range.key_count() == 1 ? std::to_string(range.begin)
                                      : fmt::format("{} to {}", range.begin, range.end - 1);
    };
    const bool is_one = keys.size() == 1 && keys.front().key_count() == 1;
    return fmt::format("{} {} of table '{}'", is_one ? "key" : "keys", list_of(keys, to_text, room),
                       table);
}

std::string positions_text(const PositionSet& lost, bool is_of_tables, size_t& room) {
    if (room == 0) return "keys of sparse tables";
    const auto to_text = [](PositionRange range) {
        return fmt::format("{:#018x} to {:#018x}", range.first, range.last);
    };
    return fmt::format("{}positions {} of the ring",
                       is_of_tables ? "the keys of sparse tables at " : "",
                       list_of(lost.ranges(), to_text, room));
}

}  // namespace

std::string lost_ranges(const PositionSet& lost, std::span<const TableSchema> tables,
                        LostNamesMax names_max) {
    std::string text;
    size_t room = names_max.ranges;
    size_t count = 0;
    for (const TableSchema& table : tables) {
        if (table.layout != Layout::kDense) continue;
        const std::vector<KeyRange> keys = lost.dense_keys(table.key_count);
        if (keys.empty() || ++count > names_max.tables) continue;
        text += (count == 1 ? "" : "; ") + keys_text(keys, table.name, room);
    }
    if (count > names_max.tables) {
        const size_t more = count - names_max.tables;
        text += fmt::format("; and keys of {} more {}", more, more == 1 ? "table" : "tables");
    }
    const bool has_sparse = std::ranges::any_of(
        tables, [](const TableSchema& table) { return table.layout == Layout::kSparse; });
    if (!has_sparse && count != 0) return text;
    return text + (count == 0 ? "" : "; ") + positions_text(lost, has_sparse, room);
}

}  // namespace weir

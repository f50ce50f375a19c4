// SPDX-License-Identifier: Apache-2.0
#include "lib/node/lost_ranges.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lib/key/key_range.h"

namespace weir {
namespace {

struct LostKeys {
    std::string table;
    std::vector<KeyRange> keys;
    uint64_t count = 0;
};

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

/// The dense tables that lose keys, and which; those first that lose most.
std::vector<LostKeys> lost_keys(const PositionSet& lost, std::span<const TableSchema> tables) {
    std::vector<LostKeys> all;
    for (const TableSchema& table : tables) {
        if (table.layout != Layout::kDense) continue;
        LostKeys of_table{table.name, lost.dense_keys(table.key_count)};
        for (const KeyRange& keys : of_table.keys)
            of_table.count += keys.key_count();
        if (of_table.count > 0) all.push_back(std::move(of_table));
    }
    std::ranges::stable_sort(all, std::ranges::greater(), &LostKeys::count);
    return all;
}

}  // namespace

std::string lost_ranges(const PositionSet& lost, std::span<const TableSchema> tables,
                        LostNamesMax names_max) {
    std::string text;
    size_t room = names_max.ranges;
    const std::vector<LostKeys> all = lost_keys(lost, tables);
    const size_t count = all.size();
    for (const LostKeys& table : std::span(all).first(std::min(count, names_max.tables)))
        text += (text.empty() ? "" : "; ") + keys_text(table.keys, table.table, room);
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

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Tables for tests of their errors and of their memory.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lib/store/rules/rule_registry.h"
#include "lib/store/table.h"

namespace weir {

/// A table, and the lists that it alone remembers.
struct Made {
    TableShard* operator->() const { return table.get(); }

    std::unique_ptr<KnownLists> lists;
    std::unique_ptr<TableShard> table;
};

inline Made made(const TableSchema& schema, Memory& memory,
                 const PositionSet& owned = PositionSet::whole_ring(),
                 size_t list_cache_bytes = size_t{1} << 20) {
    static const RuleRegistry rules = RuleRegistry::with_builtin_rules();
    auto lists = std::make_unique<KnownLists>(memory, list_cache_bytes);
    auto table = *TableShard::make(schema, owned, rules, memory, *lists);
    return {std::move(lists), std::move(table)};
}

inline std::vector<uint64_t> numbers(size_t count, uint64_t step = 1) {
    std::vector<uint64_t> keys(count);
    for (size_t i = 0; i < count; ++i)
        keys[i] = i * step;
    return keys;
}

}  // namespace weir

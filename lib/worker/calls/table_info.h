// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// TableInfo: what a client knows of a table.

#include <cstddef>
#include <cstdint>

#include "lib/base/result.h"
#include "lib/key/position.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/store/table_schema.h"

namespace weir {

struct TableInfo {
    TableSchema schema;
    size_t row_bytes = 0;         ///< of a key's values, as they are kept and travel
    size_t state_bytes = 0;       ///< of what the rule keeps beside them
    size_t pushed_row_bytes = 0;  ///< of what a push brings per key
    PositionMap positions = PositionMap::sparse();
    uint64_t checkpoint = 0;  ///< that it comes from; 0: none
};

/// Errors: as check_schema()
[[nodiscard]] Result<TableInfo> make_table_info(TableSchema schema, const RuleRegistry& rules);

}  // namespace weir

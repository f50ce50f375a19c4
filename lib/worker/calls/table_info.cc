// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/calls/table_info.h"

#include <utility>

#include <fmt/core.h>

#include "lib/wire/frame.h"

namespace weir {

Result<TableInfo> make_table_info(TableSchema schema, const RuleRegistry& rules) {
    WEIR_ASSIGN(const RuleEntry* const rule, check_schema(schema, rules));
    TableInfo info;
    const RowLayout rows = rule->layout(schema.value_type, schema.width, schema.erasable);
    info.row_bytes = rows.value_bytes();
    info.state_bytes = rows.state_bytes;
    info.pushed_row_bytes = rows.pushed_bytes();
    if (info.pushed_row_bytes > wire::kRequestBytesMax) {
        return Error(
            Errc::kInvalidArgument,
            fmt::format("table '{}': a push of one key would have {} bytes, the most is {}; "
                        "use a smaller width, or several keys",
                        schema.name, info.pushed_row_bytes, wire::kRequestBytesMax));
    }
    if (schema.layout == Layout::kDense) info.positions = PositionMap::dense(schema.key_count);
    info.schema = std::move(schema);
    return info;
}

}  // namespace weir

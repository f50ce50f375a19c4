// SPDX-License-Identifier: Apache-2.0
#include "lib/server/requests/function_calls.h"

#include <array>
#include <optional>
#include <span>

namespace weir {

Result<FunctionCall> FunctionCalls::make(ShardTable& table, const CallMessage& asked,
                                         bool changes) const {
    const FunctionEntry* const function = rules_.find_function(asked.function);
    if (function == nullptr || function->changes != changes)
        return Error(Errc::kUnavailable, "no such function in this process");
    std::array<TableShard*, CallMessage::kTablesMax> with{};
    for (size_t i = 0; i < asked.tables.size(); ++i) {
        const uint32_t number = asked.tables[i];
        const bool is_here =
            number < tables_.size() && tables_[number] != nullptr && !tables_[number]->is_dropped;
        if (!is_here) return Error(Errc::kNotFound, "no such table");
        with[i] = tables_[number]->rows.get();
        if (with[i]->unfilled_rows() != 0)
            return Error(Errc::kBusy, "a table that is still being made");
    }
    return table.rows->call(*function, asked.numbers, std::span(with).first(asked.tables.size()));
}

Result<FunctionCall> FunctionCalls::make(ShardTable& table, const Request& push) const {
    const std::optional<CallMessage> asked = CallMessage::decode(push.arguments);
    if (!asked) return Error(Errc::kProtocol, "a malformed call");
    WEIR_ASSIGN(FunctionCall call, make(table, *asked, true));
    const uint64_t rows_max = call.function->rows_max(table.rows->schema().value_type, call.widest,
                                                      push.has(wire::kKeysRange));
    if (push.header.count > rows_max)
        return Error(Errc::kInvalidArgument, "too many rows for one piece");
    return call;
}

}  // namespace weir

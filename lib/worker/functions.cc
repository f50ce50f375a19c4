// SPDX-License-Identifier: Apache-2.0
/// \file
/// Table::call(): is it valid, and what becomes of it.

#include <algorithm>
#include <vector>

#include <fmt/core.h>

#include "lib/key/key_batch.h"
#include "lib/wire/call_message.h"
#include "lib/worker/client.h"
#include "lib/worker/client_state.h"
#include "lib/worker/function_options.h"

namespace weir::access {
namespace {

Error wrong(const TableInfo& table, const FunctionEntry& function, Errc code,
            std::string_view why) {
    return {code,
            fmt::format("table '{}': function '{}': {}", table.schema.name, function.name, why)};
}

/// That it runs on these tables.
Status check_tables(ClientState& state, const TableInfo& table, const FunctionEntry& function,
                    const FunctionOptions& options) {
    const auto refused = [&](Errc code, std::string_view why) {
        return wrong(table, function, code, why);
    };
    const TableSchema& schema = table.schema;
    if (!function.supports(schema.value_type))
        return refused(Errc::kTypeMismatch,
                       fmt::format("it takes no values of {}", to_string(schema.value_type)));
    if (function.is_penalty) {
        const auto rule = state.core().rules().find(schema.rule);
        const size_t type = static_cast<size_t>(computed_type(schema.value_type));
        if (rule && !(*rule)->is_described && (*rule)->penalty[type] == nullptr)
            return refused(Errc::kInvalidArgument,
                           fmt::format("rule '{}' names no penalty", schema.rule));
    }
    if (options.with.size() != function.tables) {
        return refused(Errc::kInvalidArgument,
                       fmt::format("it reads {} other table{}; `with` names {}", function.tables,
                                   function.tables == 1 ? "" : "s", options.with.size()));
    }
    for (size_t i = 0; i < options.with.size(); ++i) {
        const TableSchema& other = options.with[i].schema;
        if (!options.with.is_of(state, i))
            return refused(Errc::kInvalidArgument,
                           fmt::format("table '{}' is another client's", other.name));
        if (function.changes && other.id == schema.id)
            return refused(Errc::kInvalidArgument,
                           "the table that it changes is none of those that it reads");
        if (!are_alike(schema, other, function.any_width)) {
            return refused(Errc::kTypeMismatch,
                           fmt::format("table '{}' has another layout, type{} or number of keys",
                                       other.name, function.any_width ? "" : ", width"));
        }
    }
    return {};
}

Status check_rows(const TableInfo& table, const FunctionEntry& function, const CalledRows& rows,
                  const FunctionOptions& options) {
    const auto refused = [&](std::string_view why) {
        return wrong(table, function, Errc::kInvalidArgument, why);
    };
    if (function.changes) {
        if (options.result != nullptr) return refused("it changes rows, and has no result");
        if (rows.keys || rows.range || rows.batch != nullptr || table.positions.is_dense())
            return {};
        return refused(
            "it changes rows, and the table is sparse: give the keys as a list; "
            "weir::call_on_rows() finds those of all "
            "rows");
    }
    if (rows.keys || rows.batch != nullptr)
        return refused("it reads a range, or all rows: it takes no list of keys");
    if (options.stamp) return refused("it reads: it takes no stamp");
    if (rows.range && !rows.range->well_formed()) return refused("the range ends before it begins");
    if (rows.range && table.positions.is_dense() && rows.range->end > table.positions.key_count()) {
        return wrong(table, function, Errc::kOutOfRange,
                     fmt::format("the range ends at key {}; the table has {} keys", rows.range->end,
                                 table.positions.key_count()));
    }
    return {};
}

/// One that reads. Of no keys it finds at once what it begins with.
uint64_t read(ClientState& state, Reductions::Question question, const FunctionOptions& options) {
    const uint64_t deadline_ns = deadline_ns_of(options.deadline);
    if (!question.keys || !question.keys->empty())
        return state.core().reduce(std::move(question), deadline_ns, options.after);
    if (question.result != nullptr) {
        *question.result = {};
        question.function->begin(question.call.numbers, *question.result);
    }
    return state.core().wait_for(deadline_ns, options.after);
}

}  // namespace

uint64_t call(const std::shared_ptr<ClientState>& state, const TableInfo& table,
              std::string_view name, const CalledRows& rows, const FunctionOptions& options) {
    const Turn turn(*state);
    if (!turn) {
        (void)turn.error();
        return kNoTurn;
    }
    const auto failed = [&](Error why) { return state->core().failed_call(std::move(why)); };
    const Result<const FunctionEntry*> found = state->core().rules().find_function(name);
    if (!found) return failed(found.error());
    const FunctionEntry& function = **found;
    Status checked = check_tables(*state, table, function, options);
    if (checked) checked = check_rows(table, function, rows, options);
    if (!checked) return failed(std::move(checked).error());
    Result<std::vector<double>> numbers = function.all_numbers(options.numbers);
    if (!numbers) return failed(of_table(table.schema.name, numbers.error()));
    CallMessage message{.function = function.id, .numbers = *std::move(numbers), .tables = {}};
    for (size_t i = 0; i < options.with.size(); ++i)
        message.tables.push_back(options.with[i].schema.id);
    if (!function.changes) {
        return read(*state,
                    {.table = &table,
                     .function = &function,
                     .call = std::move(message),
                     .keys = rows.range,
                     .result = options.result},
                    options);
    }
    const std::vector<std::byte> encoded = message.encode_with_count();
    Item item;
    item.table = &table;
    item.kind = Item::Kind::kCall;
    item.function = &function;
    item.encoded_call = encoded;
    item.widest_row = table.schema.width;
    for (size_t i = 0; i < options.with.size(); ++i)
        item.widest_row = std::max(item.widest_row, options.with[i].schema.width);
    item.batch = rows.batch;
    if (rows.keys) {
        item.keys = *rows.keys;
    } else if (rows.batch == nullptr) {
        item.is_range = true;
        item.range = rows.range.value_or(KeyRange{0, table.positions.key_count()});
    }
    Options given{{}, options.deadline, options.after};
    given.stamp = options.stamp;
    return start(state, std::span(&item, 1), given);
}

}  // namespace weir::access

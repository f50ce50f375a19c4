// SPDX-License-Identifier: Apache-2.0
/// \file
/// What makes a push or pull wrong.

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "lib/filter/factors.h"
#include "lib/key/finite.h"
#include "lib/key/key_list.h"
#include "lib/worker/core/operations.h"

namespace weir {

namespace {

Status check_range(const TableInfo& table, KeyRange range) {
    const std::string& name = table.schema.name;
    if (!table.positions.is_dense()) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("table '{}': it is sparse, and only dense tables take a range of "
                                 "keys; give a list of them",
                                 name));
    }
    if (!range.well_formed()) {
        return Error(Errc::kOutOfRange,
                     fmt::format("table '{}': the range from key {} ends at key {}, before it "
                                 "begins",
                                 name, range.begin, range.end));
    }
    if (range.end > table.positions.key_count()) {
        return Error(
            Errc::kOutOfRange,
            fmt::format("table '{}': keys {} to {} are not all in it; it has keys 0 to {}", name,
                        range.begin, range.end - 1, table.positions.key_count() - 1));
    }
    return {};
}

/// `given`: bytes.
Status check_size(const Operation& operation, size_t given, size_t row_bytes, const char* what) {
    const uint64_t count = operation.count();
    if (given == count * row_bytes) return {};
    const TableSchema& schema = operation.table->schema;
    if (operation.has_whole_rows) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("table '{}': {} rows have {} bytes, {} of values and {} of state "
                                 "each; got {}",
                                 schema.name, count, count * row_bytes, operation.table->row_bytes,
                                 operation.table->state_bytes, given));
    }
    const size_t value_bytes = operation.asks_written ? 1 : size_of(operation.caller_type());
    return Error(Errc::kInvalidArgument,
                 fmt::format("table '{}': {} keys need {} {}, {} each; got {}", schema.name, count,
                             count * (row_bytes / value_bytes), what, row_bytes / value_bytes,
                             given / value_bytes));
}

/// Of whole rows, only the values: the state is the rule's own.
bool has_finite_values(const Operation& operation) {
    const ValueType type =
        operation.has_whole_rows ? operation.table->schema.value_type : operation.caller_type();
    const std::span<const std::byte> rows = operation.values;
    if (!operation.has_whole_rows) {
        if (!all_finite(type, rows.data(), rows.size() / size_of(type))) return false;
        if (operation.extras == nullptr) return true;
        const std::span<const std::byte> right = operation.extras->right;
        return all_finite(type, right.data(), right.size() / size_of(type));
    }
    std::vector<std::byte> values(operation.table->row_bytes);  // aligned
    for (size_t at = 0; at < rows.size(); at += operation.row_bytes) {
        std::memcpy(values.data(), rows.data() + at, values.size());
        if (!all_finite(type, values.data(), values.size() / size_of(type))) return false;
    }
    return true;
}

}  // namespace

Status Operations::check(Some operations) {
    if (operations.size() > 1) WEIR_TRY(check_once(operations));
    for (const Operation& operation : operations) {
        WEIR_TRY(check_shape(operation));
        WEIR_TRY(check_values(operation));
        if (!operation.options.iteration) continue;
        WEIR_TRY(check_iteration(operation));
        WEIR_TRY(check_window(operation));
    }
    return {};
}

/// A worker pushes once in each iteration of a table.
Status Operations::check_once(Some operations) const {
    for (size_t i = 0; i < operations.size(); ++i) {
        const Operation& one = operations[i];
        const bool is_again =
            one.is_part() && std::ranges::any_of(operations.first(i), [&](const Operation& other) {
                return other.is_part() && other.table->schema.id == one.table->schema.id;
            });
        if (!is_again) continue;
        return Error(
            Errc::kInvalidArgument,
            fmt::format("table '{}': it is twice in one push of iteration {}; put its keys "
                        "into one list",
                        one.table->schema.name, *one.options.iteration));
    }
    return {};
}

/// Makes the values first, if they are those of a batch.
Status Operations::check_values(const Operation& operation) const {
    if (operation.rows != nullptr) operation.rows->begin();
    const TableSchema& schema = operation.table->schema;
    if (operation.is_push() && !schema.allow_not_finite && is_floating(schema.value_type) &&
        !has_finite_values(operation)) {
        return Error(Errc::kNotFinite,
                     fmt::format("table '{}': the values to push have a NaN or an infinity; push "
                                 "finite values, or create the table with allow_not_finite",
                                 schema.name));
    }
    return {};
}

/// What an erasable table takes beside pushes and pulls.
Status Operations::check_stamps(const Operation& operation) {
    const TableSchema& schema = operation.table->schema;
    const CallOptions& options = operation.options;
    const auto refused = [&](std::string_view what, std::string_view why) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("table '{}': {}{}", schema.name, what, why));
    };
    const bool is_bounded = operation.extras != nullptr && operation.extras->has_bound;
    const std::string_view what = operation.before   ? "expire()"
                                  : is_bounded       ? "prune()"
                                  : operation.erases ? "erase()"
                                                     : "a push with a stamp";
    if (schema.layout == Layout::kDense) {
        return refused(what,
                       ": it is dense, so its rows are there as long as the table; only "
                       "sparse ones, created with TableOptions::erasable, lose rows");
    }
    if (!schema.erasable)
        return refused(what, ": its rows have no stamps; create it with TableOptions::erasable");
    if (options.iteration && operation.erases)
        return refused(what, " takes no iteration: it takes effect by itself");
    if (options.iteration)
        return refused(what, " takes no iteration: in that, the stamp is its number");
    if (operation.erases && (options.stamp || (operation.has_arguments() && !is_bounded)))
        return refused(what, " runs no rule: it takes no stamp and no arguments");
    if (options.stamp == 0U || operation.before == 0U)
        return refused(what, ": stamps count from 1; 0 is that of a row that was never pushed");
    return {};
}

/// `values` are as many numbers for each key as there are rows in `right`.
Status Operations::check_factors(const Operation& operation) {
    const TableInfo& table = *operation.table;
    const std::span<const std::byte> right = operation.extras->right;
    const size_t products = right.size() / size_of(operation.caller_type());  // a key
    const auto refused = [&](Errc code, std::string why) {
        return Error(code, fmt::format("table '{}': a push of factors {}", table.schema.name, why));
    };
    if (!is_floating(table.schema.value_type))
        return refused(Errc::kTypeMismatch, "is for tables of floats");
    if (operation.rank() == 0 || right.size() != operation.rank() * table.pushed_row_bytes) {
        return refused(
            Errc::kInvalidArgument,
            fmt::format("needs whole rows of {} values on the right, one at least; got "
                        "{} values",
                        table.pushed_row_bytes / size_of(operation.caller_type()), products));
    }
    constexpr size_t kHeadBytes = 64;  // what stands before a row that is multiplied out here
    if (table.pushed_row_bytes + kHeadBytes > wire::kRequestBytesMax) {
        return refused(Errc::kInvalidArgument,
                       fmt::format("is for rows of less than {} bytes; push the product",
                                   wire::kRequestBytesMax - kHeadBytes));
    }
    if (products <= kFactorProductsMax) return {};
    return refused(Errc::kInvalidArgument,
                   fmt::format("takes {} products for each key, more than {}: push it as several "
                               "of a lower rank",
                               products, kFactorProductsMax));
}

/// All but the values.
Status Operations::check_shape(const Operation& operation) const {
    if (!standing_.is_ready()) return standing_.check_ready();
    const TableSchema& schema = operation.table->schema;
    WEIR_TRY(tables_.check_dropped(schema));
    if (operation.options.deadline_ns == CallOptions::kOver) {
        return Error(Errc::kDeadline,
                     fmt::format("table '{}': the deadline of this call was over before it began: "
                                 "nothing was sent",
                                 schema.name));
    }
    if (operation.erases || operation.options.stamp) [[unlikely]]
        WEIR_TRY(check_stamps(operation));
    if (operation.by_range) WEIR_TRY(check_range(*operation.table, operation.range));
    if (operation.has_whole_rows && operation.is_push() &&
        (operation.options.iteration || operation.has_arguments())) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("table '{}': a push of whole rows runs no rule: it takes no "
                                 "iteration and no arguments",
                                 schema.name));
    }
    const ValueType type = operation.caller_type();
    if (type != schema.value_type && type != computed_type(schema.value_type)) {
        return Error(
            Errc::kTypeMismatch,
            fmt::format("table '{}': a pull of {}, but it keeps {}; pull what it keeps, or "
                        "{}",
                        schema.name, to_string(type), to_string(schema.value_type),
                        to_string(computed_type(schema.value_type))));
    }
    if (operation.has_factors()) [[unlikely]]
        WEIR_TRY(check_factors(operation));
    if (operation.asks_written && operation.table->positions.is_dense()) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("table '{}': it is dense, so all its keys have rows from the "
                                 "beginning; only sparse tables know which were pushed",
                                 schema.name));
    }
    if (operation.is_push())
        WEIR_TRY(check_size(operation, operation.values.size(), operation.row_bytes, "values"));
    if (operation.out_row_bytes == 0) return {};
    return check_size(operation, operation.out.size(), operation.caller_row_bytes(),
                      operation.is_push() ? "values of room" : "values");
}

/// Iterations come one after the other. Any other push than the next, or a pull that is ahead of
/// the pushes, would wait until its deadline for a part that this worker itself has not sent.
Status Operations::check_iteration(const Operation& operation) const {
    if (!operation.options.iteration || operation.follows_part) return {};
    const uint64_t asked = *operation.options.iteration;
    const uint32_t table = operation.table->schema.id;
    const uint64_t first = first_iteration(table);
    const uint64_t last = last_iteration(table);
    const std::string& name = operation.table->schema.name;
    if (operation.is_push() && first == kNoIteration) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("table '{}': a push of iteration {}, but this worker takes part "
                                 "in no iterations",
                                 name, asked));
    }
    if (!operation.is_push()) {
        if (asked == 0) {
            return Error(Errc::kInvalidArgument,
                         fmt::format("table '{}': a pull of iteration 0: iterations count from 1; "
                                     "leave `iteration` out for a pull that does not wait",
                                     name));
        }
        // What was closed before its first iteration never waits for it.
        if (first == kNoIteration || asked <= last) return {};
        const std::string pushed =
            last + 1 == first ? std::string("none yet") : fmt::format("iterations up to {}", last);
        return Error(Errc::kInvalidArgument,
                     fmt::format("table '{}': a pull of iteration {} would wait for this worker's "
                                 "own push; it has pushed {}",
                                 name, asked, pushed));
    }
    if (asked == last + 1) return {};
    return Error(
        Errc::kInvalidArgument,
        fmt::format("table '{}': a push of iteration {}, but this worker's next one is {}: "
                    "iterations count from {}, and a worker pushes once in each",
                    name, asked, last + 1, first));
}

Status Operations::check_keys(const Operation& operation) {
    const Status sorted = check_sorted_unique(operation.keys);
    return sorted ? sorted : Status(of_table(operation.table->schema.name, sorted.error()));
}

/// Of a table without a max_delay, parts of several iterations may be under way, too: they wait at the
/// shards for their turn. Not of more than shards remember the failures of.
Status Operations::check_window(const Operation& operation) {
    const TableSchema& schema = operation.table->schema;
    const auto pushed = pushed_iterations_.find(schema.id);
    if (!operation.is_push() || !operation.options.iteration || pushed == pushed_iterations_.end())
        return {};
    const size_t open = pushed->second.open_count(calls_);
    constexpr size_t kOpenMax = TableSchema::kMaxDelayMax + 1;
    if (open < (schema.max_delay == 0 ? kOpenMax : schema.window())) return {};
    const uint64_t first = *operation.options.iteration - open;
    if (schema.max_delay == 0) {
        return Error(
            Errc::kInvalidArgument,
            fmt::format("table '{}': a push of iteration {}, but that of iteration {} has not "
                        "ended: parts of {} iterations may be under way; wait for it first",
                        schema.name, *operation.options.iteration, first, kOpenMax));
    }
    return Error(
        Errc::kInvalidArgument,
        fmt::format("table '{}': a push of iteration {}, but that of iteration {} has not ended: "
                    "with the table's max_delay of {}, {} may be open; wait for it first, or "
                    "create the table with a greater TableOptions::max_delay (at most {})",
                    schema.name, *operation.options.iteration, first, schema.max_delay,
                    schema.window(), TableSchema::kMaxDelayMax));
}

}  // namespace weir

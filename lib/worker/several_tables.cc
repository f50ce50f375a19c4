// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/several_tables.h"

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lib/key/key_batch.h"
#include "lib/worker/batch_rows.h"
#include "lib/worker/client.h"
#include "lib/worker/client_state.h"

namespace weir {

namespace {

using access::Item;

/// The memory that the calls of the batch keep with it.
std::shared_ptr<BatchRows> rows_of(const std::shared_ptr<ClientState>& state, KeyBatch& batch) {
    auto rows = std::dynamic_pointer_cast<BatchRows>(batch.rows());
    if (rows == nullptr || rows->state() != state.get()) {
        rows = std::make_shared<BatchRows>(state);
        batch.rows() = rows;
    }
    return rows;
}

Status check_batch_size(const TableInfo& table, const KeyBatch& batch, size_t given,
                        size_t row_bytes, size_t value_bytes) {
    const size_t count = batch.places().size();
    if (given == count * row_bytes) return {};
    return Error(Errc::kInvalidArgument,
                 fmt::format("table '{}': a batch of {} keys, as they came, needs {} values, {} "
                             "each; got {}",
                             table.schema.name, count, count * (row_bytes / value_bytes),
                             row_bytes / value_bytes, given / value_bytes));
}

/// Puts rows of the unique keys in the place of those of a batch.
Status use_batch(const std::shared_ptr<ClientState>& state, KeyBatch& batch, Operation& operation) {
    const TableInfo& table = *operation.table;
    const ValueType type = operation.caller_type();
    const size_t out_value_bytes = operation.asks_written ? 1 : size_of(type);
    const bool gets_values = operation.out_row_bytes != 0;
    if (operation.is_push()) {
        WEIR_TRY(check_batch_size(table, batch, operation.values.size(), operation.row_bytes,
                                  size_of(type)));
    }
    if (gets_values) {
        WEIR_TRY(check_batch_size(table, batch, operation.out.size(), operation.caller_row_bytes(),
                                  out_value_bytes));
    }
    operation.keys = batch.keys();
    if (operation.erases || operation.function() != nullptr) return {};
    const auto call = std::make_shared<BatchCall>(rows_of(state, batch), batch);
    if (operation.is_push()) {
        WEIR_ASSIGN(const RuleEntry* const rule, state->core().rules().find(table.schema.rule));
        WEIR_ASSIGN(operation.values,
                    call->push(operation.values, {rule->combine, type, operation.row_bytes}));
    }
    if (gets_values) {
        WEIR_ASSIGN(operation.out, call->pull(operation.out, operation.caller_row_bytes()));
    }
    operation.rows = call;
    return {};
}

/// Values that come while a push may still be sent again must not change what it pushes.
Status check_apart(const Item& item) {
    const std::byte* const values = item.values.data();
    const std::byte* const out = item.out.data();
    const bool overlap = values < out + item.out.size() && out < values + item.values.size();
    if (!overlap || item.batch != nullptr) return {};
    return Error(Errc::kInvalidArgument,
                 fmt::format("table '{}': what push_pull() pushes and where its values go overlap; "
                             "use two buffers",
                             item.table->schema.name));
}

Status add_operations(const std::shared_ptr<ClientState>& state, const Item& item,
                      CallOptions options, std::vector<Operation>& operations) {
    const TableInfo& table = *item.table;
    options.arguments = item.arguments;
    const bool is_push = item.kind != Item::Kind::kPull && item.kind != Item::Kind::kPullRows &&
                         item.kind != Item::Kind::kContains;
    const bool is_both = item.kind == Item::Kind::kPushPull;
    if (is_both) WEIR_TRY(check_apart(item));
    Operation operation;
    operation.table = &table;
    operation.kind = is_push ? wire::Kind::kPush : wire::Kind::kPull;
    operation.by_range = item.is_range;
    operation.range = item.range;
    operation.keys = item.keys;
    operation.options = options;
    operation.erases = item.kind == Item::Kind::kErase;
    operation.before = item.before;
    operation.asks_written = item.kind == Item::Kind::kContains;
    operation.has_whole_rows =
        item.kind == Item::Kind::kPushRows || item.kind == Item::Kind::kPullRows;
    const size_t state_bytes = operation.has_whole_rows ? table.state_bytes : 0;
    Operation pull = operation;  // of the iteration, if there is one
    if (item.below) {
        const bool may_be = *item.below > 0 && std::isfinite(*item.below);
        if (!may_be || !item.arguments.empty()) {
            return Error(
                Errc::kInvalidArgument,
                fmt::format(
                    "table '{}': prune() below {}: {}", table.schema.name, *item.below,
                    may_be ? "it runs no rule, and takes no arguments" : "give a number above 0"));
        }
        PushExtras& extras = operation.own_extras();
        extras.has_bound = true;
        const uint64_t count = 1;
        extras.arguments.resize(sizeof count + sizeof(double));
        std::memcpy(extras.arguments.data(), &count, sizeof count);
        std::memcpy(extras.arguments.data() + sizeof count, &*item.below, sizeof(double));
    }
    if (item.kind == Item::Kind::kCall) {
        PushExtras& extras = operation.own_extras();
        extras.function = item.function;
        extras.widest_row = item.widest_row;
        extras.arguments.assign(item.encoded_call.begin(), item.encoded_call.end());
    } else if (is_push && !operation.erases) {
        operation.values = item.values;
        operation.row_bytes =
            operation.has_whole_rows ? table.row_bytes + state_bytes : table.pushed_row_bytes;
    }
    if (item.kind == Item::Kind::kPushFactors) {
        PushExtras& extras = operation.own_extras();
        extras.right = item.right;
        extras.rank = static_cast<uint32_t>(item.right.size() / table.pushed_row_bytes);
        operation.row_bytes = extras.rank * size_of(operation.caller_type());
    }
    if (!is_push || (is_both && !options.iteration)) {
        operation.out = item.out;
        operation.out_row_bytes = operation.asks_written ? 1 : table.row_bytes + state_bytes;
    }
    if (item.batch != nullptr) WEIR_TRY(use_batch(state, *item.batch, operation));
    operations.push_back(std::move(operation));
    if (!is_both || !options.iteration) return {};
    pull.kind = wire::Kind::kPull;
    pull.follows_part = true;
    pull.out = item.out;
    pull.out_row_bytes = table.row_bytes;
    pull.options.arguments = {};
    pull.options.stamp.reset();
    if (item.batch != nullptr) WEIR_TRY(use_batch(state, *item.batch, pull));
    operations.push_back(std::move(pull));
    return {};
}

Error of_another_client(const Item& item) {
    return {Errc::kInvalidArgument,
            fmt::format("table '{}' is another client's: a call has tables of its own client only",
                        item.table->schema.name)};
}

const Error kNoTables(Errc::kInvalidArgument, "a push or pull of several tables names none");

}  // namespace

namespace access {

uint64_t start(const std::shared_ptr<ClientState>& state, std::span<const Item> items,
               const Options& options) {
    const Turn turn(*state);
    if (!turn) {
        (void)turn.error();
        return kNoTurn;
    }
    const CallOptions common{.iteration = options.iteration,
                             .deadline_ns = deadline_ns_of(options.deadline),
                             .after = options.after,
                             .stamp = options.stamp,
                             .filters = options.filters};
    std::vector<Operation> operations;
    operations.reserve(2 * items.size());
    for (const Item& item : items) {
        if (Status added = add_operations(state, item, common, operations); !added)
            return state->core().failed_call(std::move(added).error());
    }
    return state->core().start(std::move(operations));
}

uint64_t failed(ClientState& state, Error why) {
    const Turn turn(state);
    if (!turn) {
        (void)turn.error();
        return kNoTurn;
    }
    return state.core().failed_call(std::move(why));
}

}  // namespace access

template <class Of>
Task Client::start_several(std::span<const Of> tables, const access::Options& options) {
    std::vector<Item> items;
    std::optional<Error> wrong;
    if (tables.empty()) wrong = kNoTables;
    for (const Of& one : tables) {
        items.push_back(one.item_);
        if constexpr (requires { one.arguments_; }) items.back().arguments = one.arguments_;
        if (one.state_ != state_.get() && !wrong) wrong = of_another_client(one.item_);
    }
    const uint64_t call =
        wrong ? access::failed(*state_, *std::move(wrong)) : access::start(state_, items, options);
    return call == access::kNoTurn ? Task(access::no_turn()) : Task(state_, call);
}

Task Client::push(std::span<const Pushing> tables, const PushOptions& options) {
    if (!options.arguments.empty()) {
        const uint64_t call = access::failed(
            *state_, Error(Errc::kInvalidArgument,
                           "arguments of a push to several tables are those of one table: give "
                           "them to Table::pushing()"));
        return call == access::kNoTurn ? Task(access::no_turn()) : Task(state_, call);
    }
    access::Options given{options.iteration, options.deadline, options.after};
    given.stamp = options.stamp;
    if (options.filters) given.filters = &*options.filters;
    return start_several(tables, given);
}

Task Client::push(std::initializer_list<Pushing> tables, const PushOptions& options) {
    return push(std::span(tables.begin(), tables.size()), options);
}

Task Client::push(std::initializer_list<Pushing> tables) {
    return push(tables, PushOptions());
}

Task Client::pull(std::span<const Pulling> tables, const PullOptions& options) {
    access::Options given{options.iteration, options.deadline, options.after};
    if (options.filters) given.filters = &*options.filters;
    return start_several(tables, given);
}

Task Client::pull(std::initializer_list<Pulling> tables, const PullOptions& options) {
    return pull(std::span(tables.begin(), tables.size()), options);
}

Task Client::pull(std::initializer_list<Pulling> tables) {
    return pull(tables, PullOptions());
}

}  // namespace weir

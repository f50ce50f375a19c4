// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/table_access.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "lib/store/rules/collective.h"
#include "lib/worker/client.h"
#include "lib/worker/client_state.h"

namespace weir {
namespace {

CallOptions call_options(const access::Options& options) {
    return {options.iteration, access::deadline_ns_of(options.deadline),
            options.after,     options.arguments,
            options.out_type,  options.stamp,
            options.filters};
}

/// Of a table whose values are made and pushed as `type`.
Result<ValueType> kept_type(std::string_view name, ValueType type, const TableOptions& options) {
    const ValueType kept = options.store_as.value_or(type);
    const bool is_possible = kept == type || (is_narrow(kept) && computed_type(kept) == type);
    const std::string_view why = !is_possible ? "only those of float32 are, as bfloat16 or float16"
                                 : !is_narrow(kept) && options.rounding
                                     ? "they are not rounded; leave rounding out"
                                     : "";
    if (why.empty()) return kept;
    return Error(Errc::kInvalidArgument, fmt::format("table '{}': values of {} kept as {}: {}",
                                                     name, to_string(type), to_string(kept), why));
}

}  // namespace

namespace access {

/// Acquire and release: what one thread did in the client comes before the next one's turn. A thread
/// finds its own mark only if it has set it, so it sees a nested turn in any case.
Turn::Turn(ClientState& state) noexcept : state_(state) {
    pthread_t user = 0;
    const pthread_t self = ::pthread_self();
    is_outermost_ = state.user().compare_exchange_strong(user, self, std::memory_order_acquire,
                                                         std::memory_order_relaxed);
    has_turn_ = is_outermost_ || user == self;
}

Turn::~Turn() {
    if (is_outermost_) state_.user().store(0, std::memory_order_release);
}

Error Turn::error() const {
    if (state_.tells_of_two_threads()) log(LogLevel::kError, "{}", no_turn().text());
    return no_turn();
}

Error no_turn() {
    return {Errc::kTwoThreads,
            "two threads use one client at the same time: nothing was done for the one that came "
            "later; make a client for each thread (JobOptions::workers), or let one wait for the "
            "other"};
}

uint64_t push(ClientState& state, const TableInfo& table, std::span<const uint64_t> keys,
              std::span<const std::byte> values, const Options& options) {
    const Turn turn(state);
    if (!turn) {
        (void)turn.error();
        return kNoTurn;
    }
    return state.core().push(table, keys, values, call_options(options));
}

uint64_t push(ClientState& state, const TableInfo& table, KeyRange keys,
              std::span<const std::byte> values, const Options& options) {
    const Turn turn(state);
    if (!turn) {
        (void)turn.error();
        return kNoTurn;
    }
    return state.core().push(table, keys, values, call_options(options));
}

uint64_t pull(ClientState& state, const TableInfo& table, std::span<const uint64_t> keys,
              std::span<std::byte> out, const Options& options) {
    const Turn turn(state);
    if (!turn) {
        (void)turn.error();
        return kNoTurn;
    }
    return state.core().pull(table, keys, out, call_options(options));
}

uint64_t pull(ClientState& state, const TableInfo& table, KeyRange keys, std::span<std::byte> out,
              const Options& options) {
    const Turn turn(state);
    if (!turn) {
        (void)turn.error();
        return kNoTurn;
    }
    return state.core().pull(table, keys, out, call_options(options));
}

size_t state_bytes(const TableInfo& table) noexcept {
    return table.state_bytes;
}

const TableSchema& schema(const TableInfo& table) noexcept {
    return table.schema;
}

size_t pushed_row_bytes(const TableInfo& table) noexcept {
    return table.pushed_row_bytes;
}

Iteration next_iteration(ClientState& state, const TableInfo& table) {
    const Turn turn(state);
    if (!turn) {
        (void)turn.error();
        return 0;  // which no call takes
    }
    return state.core().next_iteration(table.schema.id);
}

Status set_filters(ClientState& state, const TableInfo& table, const Filters& filters) {
    const Turn turn(state);
    if (!turn) return turn.error();
    return state.core().set_filters(table, filters);
}

Status check_users_name(std::string_view name) {
    if (!name.starts_with(rules::kWeirsOwn)) return {};
    return Error(Errc::kInvalidArgument,
                 fmt::format("table '{}': names that begin with '{}' are kept for tables of Weir's "
                             "own; choose another one",
                             name, rules::kWeirsOwn));
}

/// A rule that this process does not have, such as one of a plugin that only servers have loaded, is
/// learned from the manager. Nothing happens if no server has it: whoever looks for it next says so.
static Status learn_rule(ClientState& state, std::string_view name) {
    if (name.empty() || state.core().rules().find(name)) return {};
    const ClientCore::CallId call = state.core().ask_about_rule(name);
    state.wait_until([&] { return state.core().done(call); });
    Status learned = state.core().take_rule(call);
    return learned.code() == Errc::kNotFound ? Status() : learned;
}

Result<std::shared_ptr<const TableInfo>> create_table(ClientState& state, std::string_view name,
                                                      ValueType type, const TableOptions& options,
                                                      std::span<const TaskId> after) {
    WEIR_TRY(check_users_name(name));
    return make_table(state, name, type, options, after);
}

Result<std::shared_ptr<const TableInfo>> make_table(ClientState& state, std::string_view name,
                                                    ValueType type, const TableOptions& options,
                                                    std::span<const TaskId> after) {
    const Turn turn(state);
    if (!turn) return turn.error();
    TableSchema wanted;
    wanted.name = name;
    WEIR_ASSIGN(wanted.value_type, kept_type(name, type, options));
    wanted.layout = options.layout;
    wanted.key_count = options.key_count;
    wanted.width = options.width;
    wanted.rule = options.rule.name;
    wanted.parameters = options.rule.parameters;
    wanted.initial_value = options.initial_value;
    wanted.allow_not_finite = options.allow_not_finite;
    wanted.max_delay = options.max_delay;
    wanted.in_checkpoints = options.in_checkpoints;
    wanted.combine = options.combine;
    wanted.erasable = options.erasable;
    wanted.codec = options.codec;
    WEIR_TRY(learn_rule(state, wanted.rule));
    if (const auto rule = state.core().rules().find(wanted.rule)) {
        if (wanted.combine == (*rule)->combine) wanted.combine.reset();
        if (is_narrow(wanted.value_type))
            wanted.rounding = options.rounding.value_or((*rule)->rounding);
    }
    WEIR_TRY(state.wait_for_tasks(after));
    const ClientCore::CallId call = state.core().create_table(wanted);
    state.wait_until([&] { return state.core().done(call); });
    WEIR_ASSIGN(TableInfo info, state.core().take_table(call));
    wanted.id = info.schema.id;
    const Status same = check_same(info.schema, wanted, state.core().rules());
    if (!same && info.checkpoint != 0) {
        return Error(same.code(), fmt::format("{} (it is that of checkpoint {}, from which the job "
                                              "goes on)",
                                              same.error().text(), info.checkpoint));
    }
    WEIR_TRY(same);
    WEIR_TRY(state.core().set_filters(info, options.filters));
    return std::make_shared<const TableInfo>(std::move(info));
}

Result<std::shared_ptr<const TableInfo>> open_table(ClientState& state, std::string_view name,
                                                    ValueType type, uint32_t width,
                                                    std::span<const TaskId> after) {
    const Turn turn(state);
    if (!turn) return turn.error();
    WEIR_TRY(state.wait_for_tasks(after));
    const ClientCore::CallId call = state.core().open_table(name);
    state.wait_until([&] { return state.core().done(call); });
    WEIR_TRY(learn_rule(state, state.core().rule_of_table(call)));
    Result<TableInfo> info = state.core().take_table(call);
    if (info.code() == Errc::kNotFound) {
        return Error(Errc::kNotFound,
                     fmt::format("there is no table '{}'; create it before it is opened", name));
    }
    if (!info) return std::move(info).error();
    TableSchema wanted = info->schema;
    if (computed_type(wanted.value_type) != type) wanted.value_type = type;
    if (width != 0) wanted.width = width;
    WEIR_TRY(check_same(info->schema, wanted, state.core().rules()));
    return std::make_shared<const TableInfo>(std::move(*info));
}

Result<std::shared_ptr<std::byte>> allocate(const std::shared_ptr<ClientState>& state, size_t count,
                                            size_t value_bytes) {
    const Turn turn(*state);
    if (!turn) return turn.error();
    size_t bytes = 0;
    std::byte* memory = nullptr;
    if (!__builtin_mul_overflow(std::max<size_t>(count, 1), value_bytes, &bytes)) {
        memory = state->core().memory().allocate(bytes, Block::kAlignment);
    }
    if (memory == nullptr) {
        return Error(Errc::kNoMemory,
                     fmt::format("no registered memory for {} values of {} bytes; the log of this "
                                 "process names the limit that was reached",
                                 count, value_bytes));
    }
    return std::shared_ptr<std::byte>(memory, [state, bytes](std::byte* p) {
        const TurnInTheEnd last_turn(*state);
        state->give_back({p, bytes});
    });
}

}  // namespace access
}  // namespace weir

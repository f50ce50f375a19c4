// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/core/operations.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "lib/base/check.h"
#include "lib/base/log.h"
#include "lib/filter/factors.h"
#include "lib/key/key_list.h"

namespace weir {

namespace {

/// Routes of lists up to this length are computed each time. Longer lists' routes are remembered.
constexpr size_t kShortList = 8;

/// Of one key, as limits count them.
size_t row_bytes_of(const Operation& operation) noexcept {
    return std::max({size_t{1}, operation.server_row_bytes(), operation.out_row_bytes});
}

PieceLimits limits_for(const Operation& operation) {
    uint64_t keys_max = std::max<uint64_t>(1, wire::kPieceBytesMax / row_bytes_of(operation));
    if (operation.rank() != 0) {
        const uint64_t products =
            operation.extras->right.size() / size_of(operation.table->schema.value_type);
        keys_max = std::min(keys_max, std::max<uint64_t>(1, kFactorProductsMax / products));
    }
    if (operation.erases) [[unlikely]] {  // servers read and reset the rows
        const TableInfo& table = *operation.table;
        keys_max = std::min(
            keys_max,
            std::max<uint64_t>(1, wire::kPieceBytesMax / (table.row_bytes + table.state_bytes)));
    }
    if (const FunctionEntry* const function = operation.function(); function != nullptr)
        [[unlikely]] {
        const TableSchema& schema = operation.table->schema;
        const uint32_t widest = std::max(schema.width, operation.extras->widest_row);
        keys_max =
            std::min(keys_max, function->rows_max(schema.value_type, widest, operation.by_range));
    }
    return {operation.by_range ? keys_max : std::min(keys_max, wire::kRequestKeysMax)};
}

/// Whether a piece may have all keys of the operation, if these are no long list. Does not divide, as most calls are
/// short.
bool is_one_piece(const Operation& operation) noexcept {
    const uint64_t count = operation.count();
    if (count <= 1) return count == 1;
    const bool has_more_limits =
        operation.rank() != 0 || operation.function() != nullptr || operation.erases;
    if (has_more_limits) [[unlikely]]
        return count <= limits_for(operation).keys_max;
    return count <= wire::kPieceBytesMax && count * row_bytes_of(operation) <= wire::kPieceBytesMax;
}

}  // namespace

Operations::CallId Operations::push(Operation operation) {
    ++counters_.pushes;
    if (Status status = set_options(operation); !status)
        return failed(operation, std::move(status));
    return start(std::span(&operation, 1));
}

Operations::CallId Operations::pull(Operation operation) {
    ++counters_.pulls;
    if (Status status = set_options(operation); !status)
        return failed(operation, std::move(status));
    return start(std::span(&operation, 1));
}

Operations::CallId Operations::start(std::vector<Operation> operations) {
    WEIR_CHECK(!operations.empty());
    for (Operation& operation : operations) {
        ++(operation.is_push() ? counters_.pushes : counters_.pulls);
        if (Status status = set_options(operation); !status)
            return failed(operation, std::move(status));
    }
    return start(Some(operations));
}

Operations::CallId Operations::start(Some operations) {
    const Operation& first = operations.front();
    if (must_wait(operations)) return start_in_order(operations);
    if (Status status = check(operations); !status) return failed(first, std::move(status));
    CallId id = 0;
    if (Status status = launch(operations, id); !status) return failed(first, std::move(status));
    return id;
}

/// Whether the call waits for something, or belongs to a handler's task.
bool Operations::must_wait(Some operations) const {
    if (!operations.front().options.after.empty() || tasks_.has_parent()) return true;
    return std::ranges::any_of(operations, [&](const Operation& one) {
        return one.is_part() && tasks_.last_waiting_iteration(one.table->schema.id) != 0;
    });
}

Operations::CallId Operations::start_in_order(Some operations) {
    const CallOptions& options = operations.front().options;
    CallTasks::Waiting waiting;
    waiting.after.assign(options.after.begin(), options.after.end());
    waiting.iteration = options.iteration.value_or(0);
    Status wrong = check_once(operations);
    std::vector<Operation> later(operations.begin(), operations.end());
    for (Operation& one : later) {
        if (wrong) wrong = check_shape(one);
        if (wrong) wrong = check_iteration(one);
        for (const std::span<const std::byte> its :
             {std::as_bytes(one.keys), one.values, std::span<const std::byte>(one.out)})
            waiting.memory.push_back(its);
        if (one.extras != nullptr) waiting.memory.push_back(one.extras->right);
        if (one.is_part()) waiting.tables.push_back(one.table->schema.id);
        one.options.after = {};
    }
    if (waiting.tables.empty()) waiting.iteration = 0;
    if (wrong) {
        for (Operation& one : later)
            one.table = &tables_.remember(*one.table);
        waiting.start = [this, later](CallId id, Call& call) mutable -> Status {
            WEIR_ASSIGN(const uint64_t deadline_ns, control_.remaining_ns(call));
            for (Operation& one : later) {
                one.options.deadline_ns = deadline_ns;
                WEIR_TRY(check_shape(one));
                WEIR_TRY(check_values(one));
                // A part has been checked, and none before it is missing; but what a pull waits for
                // may have been withdrawn.
                if (!one.is_push()) WEIR_TRY(check_iteration(one));
                WEIR_TRY(check_window(one));
            }
            return launch(later, id);
        };
    }
    const CallId id = control_.add_task(options.deadline_ns, std::move(waiting), std::move(wrong));
    note_table(id, operations.front());
    return id;
}

/// Looks at what options name, which may be gone later.
Status Operations::set_named_options(Operation& operation) {
    WEIR_TRY(set_arguments(operation));
    if (operation.may_be_filtered()) {
        WEIR_ASSIGN(operation.filters, filters_.find(*operation.table, operation.options.filters));
    }
    operation.options.filters = nullptr;
    return {};
}

Status Operations::set_arguments(Operation& operation) const {
    if (operation.options.arguments.empty()) return {};
    WEIR_ASSIGN(std::vector<std::byte> arguments, arguments_of(operation));
    operation.own_extras().arguments = std::move(arguments);
    operation.options.arguments = {};
    return {};
}

/// All arguments of the rule: those of the push, and those of the table.
Result<std::vector<std::byte>> Operations::arguments_of(const Operation& operation) const {
    const TableSchema& schema = operation.table->schema;
    WEIR_ASSIGN(const RuleEntry* const rule, rules_.find(schema.rule));
    const Result<RuleArguments> all = rule->named_arguments(
        operation.options.arguments, rule->default_arguments(schema.parameters), schema.value_type);
    if (!all) {
        return Error(all.code(), fmt::format("table '{}': {}", schema.name, all.error().text()));
    }
    const uint64_t count = rule->arguments.size();
    std::vector<std::byte> bytes(sizeof count + count * sizeof(double));
    std::memcpy(bytes.data(), &count, sizeof count);
    std::memcpy(bytes.data() + sizeof count, all->value.data(), count * sizeof(double));
    return bytes;
}

Operations::CallId Operations::failed(const Operation& operation, Status why) {
    const CallId id = calls_.failed(std::move(why));
    note_table(id, operation);
    return id;
}

void Operations::note_table(CallId call_id, const Operation& operation) {
    Call* const call = calls_.find(call_id);
    if (call == nullptr) return;
    call->table = operation.table->schema.id;
    call->is_push = operation.is_push();
}

uint64_t Operations::first_iteration(uint32_t table) const noexcept {
    const uint64_t first = peers_.view().first_iteration(standing_.options().worker, table);
    const uint64_t closed = tables_.closed_at_start(table);
    return closed == 0 ? first : std::max(first, closed + 1);
}

uint64_t Operations::last_iteration(uint32_t table) const {
    const uint64_t waiting = tasks_.last_waiting_iteration(table);
    if (waiting != 0) return waiting;
    const auto pushed = pushed_iterations_.find(table);
    return pushed != pushed_iterations_.end() ? pushed->second.last() : first_iteration(table) - 1;
}

int Operations::single_owner(const Operation& operation) const noexcept {
    const PositionMap& positions = operation.table->positions;
    if (!is_one_piece(operation)) return -1;
    if (operation.by_range) return single_owner(positions, operation.range);
    const std::span<const uint64_t> keys = operation.keys;
    if (keys.size() > kShortList) return -1;
    if (positions.is_dense() && keys.back() >= positions.key_count()) return -1;
    const View& view = peers_.view();
    const uint32_t owner = view.owner(positions.position(keys.front()));
    for (const uint64_t key : keys.subspan(1)) {
        if (view.owner(positions.position(key)) != owner) return -1;
    }
    return owner == kNoShard ? -1 : static_cast<int>(owner);
}

/// Of keys that are all in the table.
int Operations::single_owner(const PositionMap& positions, KeyRange keys) const noexcept {
    const View& view = peers_.view();
    size_t i = view.segment_index(positions.position(keys.begin));
    const uint32_t owner = view.segments()[i].primary;
    while (positions.end_key_at(view.range(i).last) < keys.end) {
        if (view.segments()[++i].primary != owner) return -1;
    }
    return owner == kNoShard ? -1 : static_cast<int>(owner);
}

Result<std::shared_ptr<Route>> Operations::route_of(const Operation& operation) {
    const PieceLimits limits = limits_for(operation);
    const PositionMap& positions = operation.table->positions;
    const View& view = peers_.view();
    if (operation.by_range) return Route::make(operation.range, view, positions, limits);
    // A push may bring more bytes per key than a pull and is then cut into smaller pieces, so
    // each has its own route; so have whole rows.
    const FunctionEntry* const function = operation.function();
    if (operation.rank() != 0) {  // its pieces depend on that
        WEIR_TRY(check_keys(operation));
        Result<std::shared_ptr<Route>> route =
            Route::make(operation.keys, list_id(operation.keys), view, positions, limits, memory_);
        if (!route) return of_table(operation.table->schema.name, route.error());
        return route;
    }
    const uint64_t pieces_of_function = function != nullptr ? limits.keys_max << 32 : 0;
    const uint64_t variant = pieces_of_function + uint64_t{operation.table->schema.id} * 8 +
                             (operation.has_whole_rows                     ? 3
                              : operation.row_bytes > 0                    ? 1
                              : operation.asks_written || operation.erases ? 2
                              : function != nullptr                        ? 4
                                                                           : 0);
    const ListId id = list_id(operation.keys);
    if (std::shared_ptr<Route> known = routes_.find(variant, id)) return known;
    WEIR_TRY(check_keys(operation));
    Result<std::shared_ptr<Route>> route =
        Route::make(operation.keys, id, view, positions, limits, memory_);
    if (!route) return of_table(operation.table->schema.name, route.error());
    if (operation.keys.size() > kShortList) routes_.remember(variant, id, *route);
    return route;
}

/// Makes the requests of a call, and the call if `call_id` is 0. After an error none was made.
Status Operations::launch(Some operations, CallId& call_id) {
    const Operation& first = operations.front();
    const bool is_plain = operations.size() == 1 && !first.is_part() && first.filters == nullptr &&
                          !first.has_selected();
    if (!is_plain) [[unlikely]]
        return launch_with_room(operations, call_id);
    WEIR_ASSIGN(Routed routed, find(first));
    (void)launch_routed(operations, std::span(&routed, 1), call_id);
    return {};
}

/// Of several tables, of parts, or of rows that filters select.
Status Operations::launch_with_room(Some operations, CallId& call_id) {
    std::vector<Routed> routed(operations.size());
    for (size_t i = 0; i < operations.size(); ++i) {
        WEIR_ASSIGN(routed[i], find(operations[i]));
    }
    WEIR_TRY(check_room(operations, routed));
    std::vector<Operation> selected;
    if (std::ranges::any_of(operations, &Operation::is_selected)) {
        selected.assign(operations.begin(), operations.end());
        WEIR_TRY(select(selected, routed));
        operations = selected;
    }
    const bool is_launched = launch_routed(operations, routed, call_id);
    for (const Operation& its : selected) {
        if (its.is_selected()) is_launched ? its.filters->end() : its.filters->undo();
    }
    return {};
}

/// False: there are too many calls. take(0) says so.
bool Operations::launch_routed(Some operations, std::span<Routed> routed, CallId& call_id) {
    Call* const call = call_id == 0 ? calls_.begin(call_id) : calls_.find(call_id);
    if (call == nullptr) return false;
    const Operation& first = operations.front();
    const bool is_gathered = operations.size() > 1;
    call->table = first.table->schema.id;
    call->is_push = first.is_push();
    if (is_gathered) sender_.gather();
    for (size_t i = 0; i < operations.size(); ++i)
        add(call_id, *call, operations[i], routed[i]);
    if (is_gathered) sender_.submit_gathered(*call);
    calls_.started(call_id, *call, [this](CallId of) { return requests_.call_needs_caller(of); });
    const CallOptions& options = first.options;
    const bool waits_for_workers = options.deadline_ns == 0 && options.iteration.has_value();
    sender_.send_off(*call, waits_for_workers ? CallOptions::kLongNs : options.deadline_ns);
    return true;
}

/// Start an iteration only if there is room for all of its parts, and a push of what filters select, or of what was
/// held, for all of that.
Status Operations::check_room(Some operations, std::span<const Routed> routed) const {
    size_t requests_max = 0;
    for (size_t i = 0; i < operations.size(); ++i) {
        const Operation& one = operations[i];
        if (!one.is_part() && !one.is_selected() && !one.has_selected()) continue;
        if (routed[i].route != nullptr) requests_max += routed[i].route->pieces().size();
        requests_max += one.is_part() ? peers_.owners().size() : 1;
    }
    if (requests_max == 0 || requests_.has_room(requests_max)) return {};
    return Error(Errc::kBusy, kTooManyRequests);
}

/// Has pushes be of the rows that their filters select. After an error, or if code of the program throws, all is
/// held that was before.
Status Operations::select(std::vector<Operation>& operations, std::span<Routed> routed) {
    const auto undo = [&] {
        for (const Operation& one : operations) {
            if (one.is_selected()) one.filters->undo();
        }
    };
    for (const Operation& one : operations) {
        if (one.is_selected()) one.filters->begin();
    }
    try {
        Status selected = select_each(operations, routed);
        if (!selected) undo();
        return selected;
    } catch (...) {
        undo();
        throw;
    }
}

Status Operations::select_each(std::vector<Operation>& operations, std::span<Routed> routed) {
    bool has_others = false;  // other keys than those that were looked at
    for (size_t i = 0; i < operations.size(); ++i) {
        Operation& operation = operations[i];
        if (!operation.is_selected()) continue;
        const Result<bool> has_other_keys = operation.filters->select(operation, counters_.filters);
        if (!has_other_keys) return of_table(operation.table->schema.name, has_other_keys.error());
        if (!*has_other_keys) continue;
        WEIR_ASSIGN(routed[i], find(operation));
        has_others = true;
    }
    return has_others ? check_room(operations, routed) : Status();
}

std::vector<Operations::CallId> Operations::flush() {
    std::vector<CallId> flushed;
    for (const ClientFilters::Held& held : filters_.held()) {
        if (!tables_.check_dropped(held.table->schema)) {
            held.rows->drop();
            continue;
        }
        if (pushed_iterations_.contains(held.table->schema.id)) {
            held.rows->is_flushed = true;
            continue;
        }
        Operation push;
        push.table = held.table;
        push.row_bytes = held.table->pushed_row_bytes;
        if (Status ready = check_shape(push); !ready) {  // else it is held on
            flushed.push_back(failed(push, std::move(ready)));
            continue;
        }
        const std::shared_ptr<SelectedRows> all = held.rows->take_all();
        push.own_extras().selected = all;
        push.keys = all->keys;
        push.values = {all->values.get(), push.keys.size() * push.row_bytes};
        ++counters_.pushes;
        CallId id = 0;
        Status begun = check(std::span(&push, 1));
        if (begun) begun = launch(std::span(&push, 1), id);
        if (!begun || id == 0) held.rows->put_back(*all);
        flushed.push_back(begun ? id : failed(push, std::move(begun)));
    }
    return flushed;
}

void Operations::warn_of_held() {
    for (const ClientFilters::Held& held : filters_.held())
        log(LogLevel::kWarning,
            "table '{}': {} rows that filters of worker {} held back are lost with it; push the "
            "last "
            "part of an iteration without filters",
            held.table->schema.name, held.rows->count(), standing_.options().worker);
}

Result<Operations::Routed> Operations::find(const Operation& operation) {
    Routed routed{operation.is_part() ? -1 : single_owner(operation), nullptr};
    if (routed.owner < 0) {
        WEIR_ASSIGN(routed.route, route_of(operation));
    } else if (!operation.by_range) {
        WEIR_TRY(check_keys(operation));
    }
    return routed;
}

void Operations::add(CallId call_id, Call& call, const Operation& operation, const Routed& routed) {
    if (operation.rows != nullptr) [[unlikely]]
        call.rows.push_back(operation.rows);
    if (operation.has_selected()) [[unlikely]]
        call.rows.push_back(operation.extras->selected);
    if (operation.is_part()) {
        const uint32_t table = operation.table->schema.id;
        pushed_iterations_.try_emplace(table, first_iteration(table)).first->second.add(call_id);
    }
    if (routed.owner < 0) return add_routed(call_id, call, operation, routed.route);
    add(call_id, call, static_cast<uint32_t>(routed.owner), [&](Content& content) {
        fill(content, operation);
        content.count = static_cast<uint32_t>(operation.count());
        content.is_range = operation.by_range;
        content.first = operation.range.begin;
        content.keys = operation.by_range ? nullptr : operation.keys.data();
        content.values = operation.values;
        content.out = operation.out;
    });
}

/// All of it but what differs from piece to piece.
void Operations::fill(Content& content, const Operation& operation) {
    const uint32_t table = operation.table->schema.id;
    content.kind = operation.kind;
    content.value_type = static_cast<uint8_t>(operation.table->schema.value_type);
    content.is_part = operation.is_part();
    content.table = table;
    content.epoch = static_cast<uint32_t>(peers_.view().epoch());
    content.row_bytes = static_cast<uint32_t>(operation.row_bytes);
    content.out_row_bytes = static_cast<uint32_t>(operation.out_row_bytes);
    content.caller_row_bytes = static_cast<uint32_t>(operation.caller_row_bytes());
    content.asks_written = operation.asks_written;
    content.iteration = operation.options.iteration.value_or(0);
    content.positions = operation.table->positions;
    content.filters = operation.filters;
    if (operation.extras != nullptr) content.extras = operation.extras;
    content.has_whole_rows = operation.has_whole_rows;
    if (!operation.is_push()) return;
    content.erases = operation.erases;
    content.stamp = (operation.erases ? operation.before : operation.options.stamp).value_or(0);
    if (table >= times_.size()) times_.resize(table + 1);
    content.place.time = ++times_[table];
}

/// What is in a piece of the route.
void Operations::fill(Content& content, const Operation& operation, Piece& piece,
                      const std::shared_ptr<Route>& route) {
    fill(content, operation);
    content.count = static_cast<uint32_t>(piece.count);  // bounded by PieceLimits
    if (content.is_part) content.parts = route->pieces_to(piece.shard);
    if (operation.by_range) {
        content.is_range = true;
        content.first = operation.range.begin + piece.begin;
    } else {
        content.keys = route->keys(piece, operation.keys.data());
        content.first = piece.hash;
        content.order = route->order(piece);
        content.piece = &piece;
        content.keeps = route;
    }
    content.values = operation.values;
    content.out = operation.out;
    if (!content.order.empty()) return;
    if (operation.is_push())
        content.values =
            operation.values.subspan(piece.begin * content.row_bytes, content.pushed_bytes());
    if (content.has_out())
        content.out =
            operation.out.subspan(piece.begin * content.caller_row_bytes, content.caller_bytes());
}

void Operations::add_routed(CallId call_id, Call& call, const Operation& operation,
                            const std::shared_ptr<Route>& route) {
    for (Piece& piece : route->pieces()) {
        add(call_id, call, piece.shard,
            [&](Content& content) { fill(content, operation, piece, route); });
    }
    if (!operation.is_part()) return;
    // A shard without any of these keys must be told: it waits for a part of every worker.
    for (const uint32_t shard : peers_.owners()) {
        if (route->pieces_to(shard) != 0) continue;
        add(call_id, call, shard, [&](Content& content) {
            fill(content, operation);
            content.is_range = true;
            content.parts = 1;
        });
    }
}

template <class Fill>
void Operations::add(CallId call_id, Call& call, uint32_t shard, Fill&& fill) {
    uint64_t id = 0;
    ClientRequest* const request =
        requests_.add(call_id, call, shard, id, std::forward<Fill>(fill));
    if (request == nullptr) return call.note_error(Error(Errc::kBusy, kTooManyRequests));
    ++counters_.requests;
    sender_.submit(id, *request, call);
}

}  // namespace weir

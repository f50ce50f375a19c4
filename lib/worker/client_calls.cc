// SPDX-License-Identifier: Apache-2.0
/// \file
/// From a call to its requests: checks the arguments, finds the route of the keys, and cuts the
/// call into one request per piece.

#include <algorithm>
#include <cstring>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "lib/store/finite.h"
#include "lib/worker/client_core.h"

namespace weir {

using wire::Kind;

namespace {

/// Routes of lists up to this length are computed each time. Longer lists' routes are remembered.
constexpr size_t kShortList = 8;

PieceLimits limits_for(bool by_range, size_t row_bytes) {
    const uint64_t by_bytes =
        std::max<uint64_t>(1, wire::kPieceBytesMax / std::max<size_t>(1, row_bytes));
    return {by_range ? by_bytes : std::min(by_bytes, wire::kRequestKeysMax)};
}

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

}  // namespace

ClientCore::CallId ClientCore::push(const TableInfo& table, std::span<const uint64_t> keys,
                                    std::span<const std::byte> values, const CallOptions& options) {
    return start_push(
        {&table, Kind::kPush, false, {}, keys, values, {}, table.pushed_row_bytes, options});
}

ClientCore::CallId ClientCore::push(const TableInfo& table, KeyRange keys,
                                    std::span<const std::byte> values, const CallOptions& options) {
    return start_push(
        {&table, Kind::kPush, true, keys, {}, values, {}, table.pushed_row_bytes, options});
}

ClientCore::CallId ClientCore::pull(const TableInfo& table, std::span<const uint64_t> keys,
                                    std::span<std::byte> out, const CallOptions& options) {
    ++counters_.pulls;
    return start({&table, Kind::kPull, false, {}, keys, {}, out, table.row_bytes, options});
}

ClientCore::CallId ClientCore::pull(const TableInfo& table, KeyRange keys, std::span<std::byte> out,
                                    const CallOptions& options) {
    ++counters_.pulls;
    return start({&table, Kind::kPull, true, keys, {}, {}, out, table.row_bytes, options});
}

Status ClientCore::check(const Transfer& t) const {
    WEIR_TRY(check_shape(t));
    const TableSchema& schema = t.table->schema;
    if (t.kind == Kind::kPush && !schema.allow_not_finite && is_floating(schema.value_type) &&
        !all_finite(schema.value_type, t.values.data(),
                    t.values.size() / size_of(schema.value_type))) {
        return Error(Errc::kNotFinite,
                     fmt::format("table '{}': the values to push have a NaN or an infinity; push "
                                 "finite values, or create the table with allow_not_finite",
                                 schema.name));
    }
    return {};
}

Status ClientCore::check_ready() const {
    if (phase_ == Phase::kReady) return {};
    if (!failure_) return failure_;
    return Error(Errc::kUnavailable, "the client has not joined its job yet");
}

Status ClientCore::check_dropped(const TableSchema& table) const {
    if (!dropped_.contains(table.id)) return {};
    return Error(Errc::kNotFound,
                 fmt::format("table '{}': this worker has dropped it", table.name));
}

/// All but the values.
Status ClientCore::check_shape(const Transfer& t) const {
    if (phase_ != Phase::kReady) return check_ready();
    const TableSchema& schema = t.table->schema;
    WEIR_TRY(check_dropped(schema));
    if (t.options.deadline_ns == CallOptions::kOver) {
        return Error(Errc::kDeadline,
                     fmt::format("table '{}': the deadline of this call was over before it began: "
                                 "nothing was sent",
                                 schema.name));
    }
    if (t.by_range) WEIR_TRY(check_range(*t.table, t.range));
    const uint64_t count = t.by_range ? t.range.key_count() : t.keys.size();
    const size_t given = t.kind == Kind::kPush ? t.values.size() : t.out.size();
    const size_t value_bytes = size_of(schema.value_type);
    if (given != count * t.row_bytes) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("table '{}': {} keys need {} values, {} each; got {}", schema.name,
                                 count, count * (t.row_bytes / value_bytes),
                                 t.row_bytes / value_bytes, given / value_bytes));
    }
    return {};
}

/// Iterations come one after the other. Any other push than the next, or a pull that is ahead of
/// the pushes, would wait until its deadline for a part that this worker itself has not sent.
Status ClientCore::check_iteration(const Transfer& t) const {
    if (!t.options.iteration) return {};
    const uint64_t asked = *t.options.iteration;
    const uint32_t table = t.table->schema.id;
    const uint64_t first = first_iteration(table);
    const uint64_t last = last_iteration(table);
    const std::string& name = t.table->schema.name;
    if (t.kind == Kind::kPush && first == kNoIteration) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("table '{}': a push of iteration {}, but this worker takes part "
                                 "in no iterations",
                                 name, asked));
    }
    if (t.kind == Kind::kPull) {
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
                    "iterations count from {}, one after the other",
                    name, asked, last + 1, first));
}

/// Of a table without a max_delay, parts of several iterations may be under way, too: they wait at the
/// shards for their turn. Not of more than shards remember the failures of.
Status ClientCore::check_window(const Transfer& t) {
    const TableSchema& schema = t.table->schema;
    const auto pushed = pushed_iterations_.find(schema.id);
    if (t.kind != Kind::kPush || !t.options.iteration || pushed == pushed_iterations_.end())
        return {};
    const size_t open = pushed->second.open_count(calls_);
    constexpr size_t kOpenMax = TableSchema::kMaxDelayMax + 1;
    if (open < (schema.max_delay == 0 ? kOpenMax : schema.window())) return {};
    const uint64_t first = *t.options.iteration - open;
    if (schema.max_delay == 0) {
        return Error(
            Errc::kInvalidArgument,
            fmt::format("table '{}': a push of iteration {}, but that of iteration {} has not "
                        "ended: parts of {} iterations may be under way; wait for it first",
                        schema.name, *t.options.iteration, first, kOpenMax));
    }
    return Error(
        Errc::kInvalidArgument,
        fmt::format("table '{}': a push of iteration {}, but that of iteration {} has not ended: "
                    "with the table's max_delay of {}, {} may be open; wait for it first, or "
                    "create the table with a greater TableOptions::max_delay (at most {})",
                    schema.name, *t.options.iteration, first, schema.max_delay, schema.window(),
                    TableSchema::kMaxDelayMax));
}

int ClientCore::single_owner(const Transfer& t) const noexcept {
    const PositionMap& positions = t.table->positions;
    const PieceLimits limits = limits_for(t.by_range, t.row_bytes);
    if (t.by_range) {
        if (t.range.empty() || t.range.key_count() > limits.keys_max) return -1;
        return single_owner(positions, t.range);
    }
    if (t.keys.empty() || t.keys.size() > kShortList || t.keys.size() > limits.keys_max) return -1;
    if (positions.is_dense() && t.keys.back() >= positions.key_count()) return -1;
    const uint32_t owner = view_.owner(positions.position(t.keys.front()));
    for (const uint64_t key : t.keys.subspan(1)) {
        if (view_.owner(positions.position(key)) != owner) return -1;
    }
    return owner == kNoShard ? -1 : static_cast<int>(owner);
}

/// Of keys that are all in the table.
int ClientCore::single_owner(const PositionMap& positions, KeyRange keys) const noexcept {
    size_t i = view_.segment_index(positions.position(keys.begin));
    const uint32_t owner = view_.segments()[i].primary;
    while (positions.end_key_at(view_.range(i).last) < keys.end) {
        if (view_.segments()[++i].primary != owner) return -1;
    }
    return owner == kNoShard ? -1 : static_cast<int>(owner);
}

Result<std::shared_ptr<Route>> ClientCore::route_of(const Transfer& t) {
    const PieceLimits limits = limits_for(t.by_range, t.row_bytes);
    const PositionMap& positions = t.table->positions;
    if (t.by_range) return Route::make(t.range, view_, positions, limits);
    // A push may bring more bytes per key than a pull and is then cut into smaller pieces, so
    // each has its own route.
    const uint32_t variant = t.table->schema.id * 2 + (t.kind == Kind::kPush ? 1 : 0);
    const ListId id = list_id(t.keys);
    if (std::shared_ptr<Route> known = routes_.find(variant, id)) return known;
    WEIR_TRY(check_sorted_unique(t.keys));
    WEIR_ASSIGN(std::shared_ptr<Route> route,
                Route::make(t.keys, id, view_, positions, limits, memory_));
    if (t.keys.size() > kShortList) routes_.remember(variant, id, route);
    return route;
}

ClientCore::CallId ClientCore::start(const Transfer& t) {
    if (is_ordered(t)) return start_in_order(t);
    if (Status status = check(t); !status) return failed_transfer(t, std::move(status));
    if (t.options.iteration) {
        Status status = check_iteration(t);
        if (status) status = check_window(t);
        if (!status) return failed_transfer(t, std::move(status));
    }
    CallId id = 0;
    if (Status status = launch(t, id); !status) return failed_transfer(t, std::move(status));
    return id;
}

ClientCore::CallId ClientCore::start_push(Transfer t) {
    ++counters_.pushes;
    if (!t.options.arguments.empty()) {
        Result<Arguments> arguments = arguments_of(t);
        if (!arguments) return failed_transfer(t, arguments.error());
        t.arguments = *std::move(arguments);
        t.options.arguments = {};
    }
    return start(t);
}

/// All arguments of the rule: those of the push, and those of the table.
Result<ClientCore::Arguments> ClientCore::arguments_of(const Transfer& t) const {
    const TableSchema& schema = t.table->schema;
    WEIR_ASSIGN(const RuleEntry* const rule, rules_.find(schema.rule));
    const Result<RuleArguments> all = rule->named_arguments(
        t.options.arguments, rule->default_arguments(schema.parameters), schema.value_type);
    if (!all) {
        return Error(all.code(), fmt::format("table '{}': {}", schema.name, all.error().text()));
    }
    const uint64_t count = rule->arguments.size();
    std::vector<std::byte> bytes(sizeof count + count * sizeof(double));
    std::memcpy(bytes.data(), &count, sizeof count);
    std::memcpy(bytes.data() + sizeof count, all->value.data(), count * sizeof(double));
    return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

ClientCore::CallId ClientCore::failed_transfer(const Transfer& t, Status why) {
    const CallId id = calls_.failed(std::move(why));
    note_table(id, t);
    return id;
}

void ClientCore::note_table(CallId call_id, const Transfer& t) {
    Call* const call = calls_.find(call_id);
    if (call == nullptr) return;
    call->table = t.table->schema.id;
    call->is_push = t.kind == Kind::kPush;
}

/// For people.
std::string ClientCore::table_text(uint32_t table) const {
    const auto known = std::ranges::find(schemas_, table, &TableSchema::id);
    return known == schemas_.end() ? fmt::format("table number {}", table)
                                   : fmt::format("table '{}'", known->name);
}

void ClientCore::lose_outcome(CallId call_id) {
    const Call* const call = calls_.find(call_id);
    if (call == nullptr || call->status) return;
    const std::string what = call->table == Call::kNoTable
                                 ? std::string("a call")
                                 : fmt::format("{} {}", call->is_push ? "a push to" : "a pull from",
                                               table_text(call->table));
    lose_error(Error(call->status.code(),
                     fmt::format("{} failed: {}", what, call->status.error().text())));
}

void ClientCore::lose_error(const Error& error) {
    ++counters_.errors_lost;
    // Every further call says the same.
    if (!failure_ || error.code() == Errc::kReassigned) return;
    // Up to here it names call and table; what follows differs by keys, iterations and times.
    const std::string_view text = error.text();
    const std::string which =
        fmt::format("{} {}", text.substr(0, text.find(" failed: ")), to_string(error.code()));
    constexpr size_t kToldMax = 1024;
    if (told_losses_.size() == kToldMax || !told_losses_.insert(which).second) return;
    log(LogLevel::kWarning,
        "{}: {}; nobody has asked for this error (a Task was destroyed without wait(), or Tasks "
        "with an error, or it is not the first error of a Tasks): it may have lost values. Further "
        "ones like it are only counted "
        "(ClientStats::errors_lost)",
        name(), text);
}

/// Makes the requests of a call, and the call if `call_id` is 0. After an error none was made.
Status ClientCore::launch(const Transfer& t, CallId& call_id) {
    const bool aggregate = t.kind == Kind::kPush && t.options.iteration.has_value();
    const uint64_t count = t.by_range ? t.range.key_count() : t.keys.size();
    const int owner = aggregate ? -1 : single_owner(t);
    std::shared_ptr<Route> route;
    if (owner < 0) {
        WEIR_ASSIGN(route, route_of(t));
    } else if (!t.by_range) {
        WEIR_TRY(check_sorted_unique(t.keys));
    }
    // Start an iteration only if there is room for all of its parts.
    if (aggregate && !requests_.has_room(route->pieces().size() + owners_.size())) {
        return Error(Errc::kBusy, kTooManyRequests);
    }
    Call* const call = call_id == 0 ? calls_.begin(call_id) : calls_.find(call_id);
    if (call == nullptr) return {};  // too many: take(0) says so
    if (aggregate) {
        const uint32_t table = t.table->schema.id;
        pushed_iterations_.try_emplace(table, first_iteration(table)).first->second.add(call_id);
    }
    if (owner >= 0) {
        add_request(call_id, *call, t, {.shard = static_cast<uint32_t>(owner), .count = count});
    } else {
        for (Piece& piece : route->pieces()) {
            const uint32_t parts = aggregate ? route->pieces_to(piece.shard) : 0;
            add_request(call_id, *call, t,
                        {piece.shard, piece.begin, piece.count, &piece, route, parts});
        }
        // A shard without any of these keys must be told: it waits for a part of every worker.
        for (const uint32_t shard : owners_) {
            if (!aggregate || route->pieces_to(shard) != 0) continue;
            add_request(call_id, *call, t, {.shard = shard, .parts = 1});
        }
    }
    call->table = t.table->schema.id;
    call->is_push = t.kind == Kind::kPush;
    calls_.started(call_id, *call, [this](CallId of) { return call_needs_caller(of); });
    const bool waits_for_workers = t.options.deadline_ns == 0 && t.options.iteration.has_value();
    send_off(*call, waits_for_workers ? CallOptions::kLongNs : t.options.deadline_ns);
    return {};
}

void ClientCore::add_request(CallId call_id, Call& call, const Transfer& t, const Slice& slice) {
    const auto& [shard, begin, count, piece, route, parts] = slice;
    uint64_t id = 0;
    Request* const request = requests_.acquire(id);
    if (request == nullptr) {
        return call.note_error(Error(Errc::kBusy, kTooManyRequests));
    }
    ++call.open_requests;
    ++counters_.requests;
    request->call = call_id;
    request->peer = shard;
    if (!t.by_range) {
        request->piece = piece;
        request->keeps = route;  // keeps the piece alive
    }
    request->row_bytes = static_cast<uint32_t>(t.row_bytes);
    wire::FrameHeader& header = request->header;
    header.kind = t.kind;
    header.value_type = static_cast<uint8_t>(t.table->schema.value_type);
    header.table = t.table->schema.id;
    header.parts = parts;
    header.flags = parts != 0 ? uint8_t{wire::kAggregate} : uint8_t{0};
    header.iteration = t.options.iteration.value_or(0);
    if (header.iteration != 0) header.flags |= wire::kIteration;
    if (t.arguments != nullptr) header.encoding = wire::kHasArguments;
    request->arguments = t.arguments;
    header.epoch = static_cast<uint32_t>(view_.epoch());
    header.count = static_cast<uint32_t>(count);  // bounded by PieceLimits
    request->positions = t.table->positions;
    if (t.by_range || count == 0) {
        header.flags |= wire::kKeysRange;
        header.first = t.range.begin + begin;
    } else {
        request->keys =
            std::span(route ? route->keys(*piece, t.keys.data()) : t.keys.data(), count);
        header.first = piece != nullptr ? piece->hash : 0;
    }
    if (route && piece != nullptr && !t.by_range) request->order = route->order(*piece);
    if (t.kind == Kind::kPush) {
        if (header.table >= times_.size()) times_.resize(header.table + 1);
        request->place.time = ++times_[header.table];
        header.time = static_cast<uint32_t>(request->place.time);
        request->from = request->order.empty()
                            ? t.values.subspan(begin * t.row_bytes, count * t.row_bytes)
                            : t.values;
    } else if (request->order.empty()) {
        request->into = t.out.subspan(begin * t.row_bytes, count * t.row_bytes);
    } else {
        request->callers_out = t.out;
        request->into = {static_cast<std::byte*>(nullptr), count * t.row_bytes};
    }
    submit(id, *request);
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
/// \file
/// From a call to its requests: checks the arguments, finds the route of the keys, and cuts the
/// call into one request per piece.

#include <algorithm>

#include <fmt/core.h>

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
    ++counters_.pushes;
    return start(
        {&table, Kind::kPush, false, {}, keys, values, {}, table.pushed_row_bytes, options});
}

ClientCore::CallId ClientCore::push(const TableInfo& table, KeyRange keys,
                                    std::span<const std::byte> values, const CallOptions& options) {
    ++counters_.pushes;
    return start(
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
    if (phase_ != Phase::kReady) {
        if (!failure_) return failure_;
        return Error(Errc::kUnavailable, "the client has not joined its job yet");
    }
    const TableSchema& schema = t.table->schema;
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

/// Iterations come one after the other. Any other push than the next, or a pull that is ahead of
/// the pushes, would wait until its deadline for a part that this worker itself has not sent.
Status ClientCore::check_iteration(const Transfer& t) {
    if (!t.options.iteration) return {};
    const uint64_t asked = *t.options.iteration;
    const uint32_t table = t.table->schema.id;
    const uint64_t last = table < pushed_iterations_.size() ? pushed_iterations_[table].last() : 0;
    const std::string& name = t.table->schema.name;
    if (t.kind == Kind::kPull) {
        if (asked == 0) {
            return Error(Errc::kInvalidArgument,
                         fmt::format("table '{}': a pull of iteration 0: iterations count from 1; "
                                     "leave `iteration` out for a pull that does not wait",
                                     name));
        }
        if (asked <= last) return {};
        const std::string pushed =
            last == 0 ? std::string("none yet") : fmt::format("iterations up to {}", last);
        return Error(Errc::kInvalidArgument,
                     fmt::format("table '{}': a pull of iteration {} would wait for this worker's "
                                 "own push; it has pushed {}",
                                 name, asked, pushed));
    }
    if (asked == last + 1) return check_window(t);
    return Error(
        Errc::kInvalidArgument,
        fmt::format("table '{}': a push of iteration {}, but this worker's next one is {}: "
                    "iterations count from 1, one after the other",
                    name, asked, last + 1));
}

/// Of a table without a max_delay, parts of any number of iterations may be under way: they wait
/// at the shards for their turn.
Status ClientCore::check_window(const Transfer& t) {
    const TableSchema& schema = t.table->schema;
    if (schema.max_delay == 0 || schema.id >= pushed_iterations_.size()) return {};
    const size_t open = pushed_iterations_[schema.id].open_count(calls_);
    if (open < schema.window()) return {};
    const uint64_t first = *t.options.iteration - open;
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
        return single_owner(
            {positions.position(t.range.begin), positions.position(t.range.end - 1)});
    }
    if (t.keys.empty() || t.keys.size() > kShortList || t.keys.size() > limits.keys_max) return -1;
    if (positions.is_dense() && t.keys.back() >= positions.key_count()) return -1;
    const uint32_t owner = view_.owner(positions.position(t.keys.front()));
    for (const uint64_t key : t.keys.subspan(1)) {
        if (view_.owner(positions.position(key)) != owner) return -1;
    }
    return owner == kNoShard ? -1 : static_cast<int>(owner);
}

int ClientCore::single_owner(PositionRange range) const noexcept {
    const std::span<const ViewSegment> segments = view_.segments();
    size_t i = view_.segment_index(range.first);
    const uint32_t owner = segments[i].primary;
    while (++i < segments.size() && segments[i].first <= range.last) {
        if (segments[i].primary != owner) return -1;
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
                Route::make(t.keys, view_, positions, limits, memory_));
    if (t.keys.size() > kShortList) routes_.remember(variant, id, route);
    return route;
}

ClientCore::CallId ClientCore::start(const Transfer& t) {
    if (Status status = check(t); !status) return calls_.failed(std::move(status));
    if (Status status = check_iteration(t); !status) return calls_.failed(std::move(status));
    const bool aggregate = t.kind == Kind::kPush && t.options.iteration.has_value();
    const uint64_t count = t.by_range ? t.range.key_count() : t.keys.size();
    const int owner = aggregate ? -1 : single_owner(t);
    std::shared_ptr<Route> route;
    if (owner < 0) {
        Result<std::shared_ptr<Route>> found = route_of(t);
        if (!found) return calls_.failed(std::move(found).error());
        route = std::move(*found);
    } else if (!t.by_range) {
        if (Status status = check_sorted_unique(t.keys); !status)
            return calls_.failed(std::move(status));
    }
    // Start an iteration only if there is room for all of its parts.
    if (aggregate && !requests_.has_room(route->pieces().size() + shard_count())) {
        return calls_.failed(Error(Errc::kBusy, kTooManyRequests));
    }
    CallId call_id = 0;
    Call* const call = calls_.begin(call_id);
    if (call == nullptr) return 0;
    if (aggregate) {
        const uint32_t table = t.table->schema.id;
        if (table >= pushed_iterations_.size()) pushed_iterations_.resize(table + 1);
        pushed_iterations_[table].add(call_id, t.table->schema.max_delay > 0);
    }
    if (owner >= 0) {
        add_request(call_id, *call, t, {.shard = static_cast<uint32_t>(owner), .count = count});
    } else {
        for (Piece& piece : route->pieces()) {
            const uint32_t parts = aggregate ? route->pieces_per_shard()[piece.shard] : 0;
            add_request(call_id, *call, t,
                        {piece.shard, piece.begin, piece.count, &piece, route, parts});
        }
        // A shard without any of these keys must be told: it waits for a part of every worker.
        for (uint32_t shard = 0; aggregate && shard < shard_count(); ++shard) {
            if (route->pieces_per_shard()[shard] != 0) continue;
            add_request(call_id, *call, t, {.shard = shard, .parts = 1});
        }
    }
    calls_.started(call_id, *call, [this](CallId of) { return call_needs_caller(of); });
    send_off(*call, t.options.deadline_ns);
    return call_id;
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
        request->route = route;  // keeps the piece alive
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
    header.count = static_cast<uint32_t>(count);  // bounded by PieceLimits
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
        request->time = ++times_[header.table];
        header.time = static_cast<uint32_t>(request->time);
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

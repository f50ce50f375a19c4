// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a part of an iteration does: it is added to the iteration's sum, or, if it is all of it,
/// changes the table (shard_parts.cc goes on). Other pushes: shard_order.cc. And what a request
/// names in a table, for both and for pulls.

#include <array>
#include <cstring>

#include <fmt/core.h>

#include "lib/server/shard.h"

namespace weir {

using wire::Kind;

static Errc add_to_sum(ShardTable& table, uint64_t iteration, const Entries& entries,
                       std::span<const std::byte> values, const RuleArguments& arguments) {
    table.iterations.added(iteration);
    return table.rows->push_aggregate(iteration, entries, values, &arguments).code();
}

void Shard::apply(const Request& request) {
    ShardTable& table = *tables_[request.header.table];
    if (request.header.kind == Kind::kPull) {
        if (judge_epoch(request.header.epoch) != OfEpoch::kServed)
            return refuse_request(request, Errc::kStaleEpoch, view_.epoch());
        ++counters_.pulls;
        return pull(table, request);
    }
    ++counters_.pushes;
    counters_.keys_pushed += request.header.count;
    push_part(table, request);
}

void Shard::push_part(ShardTable& table, const Request& request) {
    const Session* const session = sessions_.find(request.connection);
    if (session == nullptr) return;
    const wire::FrameHeader& h = request.header;
    const OpenIterations::Part part{request.connection, h.request, session->worker, h.time,
                                    first_position(table, request)};
    if (is_repeated(table, *session, part, h.iteration)) return;
    const IterationProgress& iterations = table.iterations.state();
    if (!iterations.lacks(h.iteration, session->worker, h.parts))
        return refuse_part(table, *session, h, IterationProgress::Verdict::kRefuse);
    Errc status = is_moving_ && !serves(table, request) ? Errc::kOutOfRange : Errc::kOk;
    if (status == Errc::kOk && h.count > 0 && h.iteration <= iterations.closed().highest()) {
        switch (judge_positions(table, request)) {
            case OfPositions::kOpen: break;
            case OfPositions::kClosed:
                if (!table.iterations.arrived_again(h.iteration, part, h.parts))
                    reply_closed(table, part, h.iteration);
                return finish_iterations(table);
            case OfPositions::kBoth: status = Errc::kInvalidArgument; break;
            case OfPositions::kUnknown: status = Errc::kUnknownList; break;
        }
    }
    const bool is_all = table.iterations.is_all(h.iteration, session->worker, h.parts);
    IterationFailure outcome{status, session->worker};
    Result<Entries> entries = Entries();
    const Entries* all = nullptr;  // that the iteration changes
    if (status == Errc::kOk && !iterations.failure_of(h.iteration)) {
        const size_t row_count = table.rows->row_count();
        // First, because rows that are made for a part stay when that fails.
        const Result<RuleArguments> arguments = arguments_of(table, request);
        outcome.status = arguments.code();
        if (outcome.status == Errc::kOk)
            outcome = table.iterations.judge_arguments(h.iteration, session->worker, *arguments);
        if (outcome.status == Errc::kOk && h.count > 0) {
            entries = resolve(table, request);
            outcome.status = entries.code();
        }
        if (outcome.status == Errc::kOk)
            table.iterations.set_arguments(h.iteration, session->worker, *arguments);
        if (outcome.status == Errc::kOk && h.count > 0) {
            if (is_all && !table.pins.any()) all = &*entries;
            outcome.status =
                all != nullptr
                    ? table.rows->push(*entries, request.values, &*arguments, stamp_of(h.iteration))
                          .code()
                    : add_to_sum(table, h.iteration, *entries, request.values, *arguments);
        }
        if (outcome.status != Errc::kOk) all = nullptr;
        if (all == nullptr && h.count > 0) {
            if (outcome.status == Errc::kOk && !fits_into_change(table, h.iteration))
                outcome.status = Errc::kNoMemory;
            record_made_rows(table, request, row_count);
        }
    }
    end_part(table, part, h, outcome, all);
}

/// Backups take what an iteration changes as a whole: whether its sum, with the part that has just been
/// added, is not too large for that.
bool Shard::fits_into_change(const ShardTable& table, uint64_t iteration) {
    if (!replication_.has_had_backups()) [[likely]]
        return true;
    constexpr size_t kHeadBytes = 4;  // of a record, at most, for each of its rows
    const TableShard& rows = *table.rows;
    const size_t row_bytes = sizeof(uint64_t) + rows.row_layout().value_bytes() +
                             rows.row_layout().state_bytes + kHeadBytes;
    const size_t rows_max = options_.change_bytes_max / row_bytes;
    if (rows.aggregated_rows_max(iteration) <= rows_max) return true;
    const size_t row_count = table.rows->aggregated_rows(iteration);
    if (row_count <= rows_max) return true;
    refusals_.log(LogLevel::kError, fmt::format("large iteration {}", rows.schema().id),
                  fmt::format("{}: iteration {} of table '{}' fails: it changes {} rows or more of "
                              "{} bytes here, and copies take at most {} MiB of a change; use more "
                              "servers or shards, or push fewer keys in an iteration",
                              name(), iteration, rows.schema().name, row_count, row_bytes,
                              options_.change_bytes_max >> 20));
    return false;
}

/// What was pushed counts later, or not at all, but keys that were new to the table have rows now.
/// `row_count`: before.
void Shard::record_made_rows(ShardTable& table, const Request& request, size_t row_count) {
    if (table.rows->row_count() == row_count) [[likely]]
        return;
    table.was_pushed = true;
    if (table.rows->schema().erasable) return;  // they are empty, which copies need not know
    streams_.made_rows(table, keys_of(request));
}

OfPositions judge_positions(const ShardTable& table, const Request& request) {
    const wire::FrameHeader& h = request.header;
    const ClosedIterations& closed = table.iterations.state().closed();
    bool has_open = false;
    bool has_closed = false;
    const auto look_at = [&](uint64_t last) {
        (last < h.iteration ? has_open : has_closed) = true;
    };
    if ((h.flags & wire::kKeysKnown) != 0) return OfPositions::kUnknown;
    if ((h.flags & wire::kKeysRange) != 0) {
        const PositionRange range{table.positions.position(h.first),
                                  table.positions.position(h.first + h.count - 1)};
        for (const ClosedRun& run : closed.runs(range))
            look_at(run.state.last);
    } else {
        for (const uint64_t key : keys_of(request)) {
            const ClosedState* const state = closed.find(table.positions.position(key));
            look_at(state == nullptr ? 0 : state->last);
        }
    }
    if (has_open && has_closed) return OfPositions::kBoth;
    return has_closed ? OfPositions::kClosed : OfPositions::kOpen;
}

std::optional<uint64_t> first_position(const ShardTable& table, const Request& request) {
    const bool is_list = request.has(wire::kKeysInline) || request.has(wire::kKeysRemote);
    if (request.header.count == 0 || (is_list && request.keys.empty())) return std::nullopt;
    return table.positions.position(first_key_of(request));
}

std::optional<IterationFailure> failure_at(const ShardTable& table, uint64_t iteration,
                                           std::optional<uint64_t> position) {
    const ClosedIterations& closed = table.iterations.state().closed();
    if (closed.has_no_failure()) return std::nullopt;
    const ClosedState* const state = position ? closed.find(*position) : nullptr;
    return state != nullptr ? state->failure_of(iteration) : closed.failure_of(iteration);
}

Result<RuleArguments> arguments_of(const ShardTable& table, const Request& request) {
    std::array<double, wire::kArgumentsMax> given{};
    if (!request.arguments.empty())
        std::memcpy(given.data(), request.arguments.data(), request.arguments.size());
    return table.rows->arguments(
        std::span<const double>(given).first(request.arguments.size() / sizeof(double)));
}

Result<Entries> resolve(ShardTable& table, const Request& request, const SegmentList* held) {
    const wire::FrameHeader& h = request.header;
    Entries entries;
    if (request.has(wire::kKeysRange)) {
        entries.is_range = true;
        entries.range = range_of(request);
        return entries;
    }
    if (request.has(wire::kKeysKnown)) {
        WEIR_ASSIGN(entries.list, table.rows->known_rows(known_list(request), held));
        return entries;
    }
    entries.keys = keys_of(request);
    if (request.erases()) [[unlikely]] {
        WEIR_ASSIGN(entries.list, table.rows->rows_to_erase(entries.keys, held));
        return entries;
    }
    WEIR_ASSIGN(entries.list, h.kind == Kind::kPush ? table.rows->rows_for_push(entries.keys, held)
                                                    : table.rows->rows_for_pull(entries.keys));
    return entries;
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Parts, until they have been added or have failed.

#include "lib/server/iterations/iteration_parts.h"

#include <fmt/core.h>

namespace weir {

static Errc add_to_sum(ShardTable& table, uint64_t iteration, const Entries& entries,
                       std::span<const std::byte> values, const RuleArguments& arguments) {
    table.iterations.added(iteration);
    return table.rows->push_aggregate(iteration, entries, values, &arguments).code();
}

/// Whether the part has arrived before, on a connection that broke. That one counts; this one gets
/// the reply.
static bool is_repeated(ShardTable& table, const Session& session, const OpenIterations::Part& part,
                        uint64_t iteration) {
    // On a first connection nothing was sent before.
    return session.hello > 1 && table.iterations.replace(iteration, part);
}

void IterationParts::accept(Session& session, ShardTable& table, Request& part, Errc status) {
    const wire::FrameHeader& h = part.header;
    const IterationProgress& iterations = table.iterations.state();
    switch (judge(session, table, part)) {
        case IterationProgress::Verdict::kNow: break;
        case IterationProgress::Verdict::kLater:
            if (const auto failure = iterations.failure_for(h.iteration, session.worker)) {
                return replies_.reply_failed(session.connection, h.request, *failure);
            }
            return waiting_.defer(session, part, Wait::kIteration, table.deferred);
        default: return;
    }
    if (h.part_status != Errc::kOk) status = Errc::kCancelled;
    if (status != Errc::kOk) return end_unused(table, session, h, status);
    if (waiting_.find_or_fetch(session, part)) apply(table, part);
}

IterationProgress::Verdict IterationParts::judge(const Session& session, ShardTable& table,
                                                 const Request& request) {
    const wire::FrameHeader& part = request.header;
    IterationProgress& iterations = table.iterations.state();
    const auto verdict = iterations.judge(part.iteration, session.worker, part.parts);
    switch (verdict) {
        case IterationProgress::Verdict::kNow:
        case IterationProgress::Verdict::kLater: break;
        case IterationProgress::Verdict::kPast:
            reply_closed(table,
                         {session.connection, part.request, session.worker, part.time,
                          first_position(table, request)},
                         part.iteration);
            break;
        default: refuse(table, session, part, verdict);
    }
    return verdict;
}

void IterationParts::apply(ShardTable& table, const Request& sent) {
    ++counters_.pushes;
    counters_.keys_pushed += sent.header.count;
    const Session* const session = sessions_.find(sent.connection);
    if (session == nullptr) return;
    const wire::FrameHeader& h = sent.header;
    const OpenIterations::Part part{sent.connection, h.request, session->worker, h.time,
                                    first_position(table, sent)};
    if (is_repeated(table, *session, part, h.iteration)) return;
    const IterationProgress& iterations = table.iterations.state();
    if (!iterations.lacks(h.iteration, session->worker, h.parts))
        return refuse(table, *session, h, IterationProgress::Verdict::kRefuse);
    Errc status = standing_.is_moving() && !serves(table, sent) ? Errc::kOutOfRange : Errc::kOk;
    const Request* const expanded = waiting_.expand(table, sent);
    if (expanded == nullptr) [[unlikely]]
        return end_unused(table, *session, h, Errc::kProtocol);
    const Request& request = *expanded;
    if (status == Errc::kOk && h.count > 0 && h.iteration <= iterations.closed().highest()) {
        switch (judge_positions(table, request)) {
            case OfPositions::kOpen: break;
            case OfPositions::kClosed:
                if (!table.iterations.arrived_again(h.iteration, part, h.parts))
                    reply_closed(table, part, h.iteration);
                return finish(table);
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
            // Those that are not kept change in no iteration.
            if (outcome.status == Errc::kOk && !request.kept.empty()) [[unlikely]]
                record_made_rows(table, request, row_count);
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
    if (outcome.status == Errc::kOk && sent.is_encoded()) [[unlikely]]
        waiting_.count_expanded(table, sent);
    end(table, part, h, outcome, all);
}

/// Backups take what an iteration changes as a whole: whether its sum, with the part that has just been
/// added, is not too large for that.
bool IterationParts::fits_into_change(const ShardTable& table, uint64_t iteration) {
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

}  // namespace weir

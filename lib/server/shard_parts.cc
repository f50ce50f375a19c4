// SPDX-License-Identifier: Apache-2.0
/// \file
/// Parts of iterations, once they have been added or have failed: an iteration ends when it has
/// the parts of all members and the one before it has ended, and fails when a part fails or a
/// worker will send no more.

#include "lib/server/shard.h"

namespace weir {

/// A part of an open iteration has had its effect, or has failed. If its key list is not known,
/// the part does not count: the worker sends it again with its keys. `outcome`: kOk, or how its iteration fails
/// by it. `all`: as finish_iterations().
void Shard::end_part(ShardTable& table, const OpenIterations::Part& part,
                     const wire::FrameHeader& header, const IterationFailure& outcome,
                     const Entries* all) {
    const Errc status = outcome.status;
    if (status == Errc::kUnknownList) return replies_.reply(part.connection, part.request, status);
    const auto failure = table.iterations.arrived(header.iteration, part, header.parts, outcome);
    if (failure) replies_.reply_failed(part.connection, part.request, *failure);
    if (status != Errc::kOk) retry_ |= !table.deferred.empty();  // pulls of the iteration
    finish_iterations(table, all);
}

/// A part of an open iteration has no effect, and the iteration fails by it. `status`: why. A
/// worker that withdraws its parts says so, also if all have arrived.
void Shard::end_unused_part(ShardTable& table, const Session& session,
                            const wire::FrameHeader& part, Errc status) {
    const auto failure = table.iterations.excuse(
        part.iteration, {session.connection, part.request, session.worker, part.time, std::nullopt},
        status);
    if (failure) replies_.reply_failed(session.connection, part.request, *failure);
    retry_ |= !table.deferred.empty();
    finish_iterations(table);
}

/// A worker sends more parts than it announced; or its iteration failed, and it may not know yet;
/// or its part of an iteration before it is missing. That one was sent before, but there was no room
/// for it when it came.
void Shard::refuse_part(ShardTable& table, const Session& session, const wire::FrameHeader& part,
                        IterationProgress::Verdict verdict) {
    const IterationProgress& iterations = table.iterations.state();
    if (const auto failure = iterations.failure_for(part.iteration, session.worker))
        return replies_.reply_failed(session.connection, part.request, *failure);
    const bool comes_again = verdict == IterationProgress::Verdict::kSkips;
    replies_.reply(session.connection, part.request,
                   comes_again ? Errc::kBusy : Errc::kInvalidArgument,
                   iterations.last_seen(session.worker));
}

/// Whether the part has arrived before, on a connection that broke. That one counts; this one gets
/// the reply.
bool Shard::is_repeated(ShardTable& table, const Session& session, const OpenIterations::Part& part,
                        uint64_t iteration) {
    // On a first connection nothing was sent before.
    return session.hello > 1 && table.iterations.replace(iteration, part);
}

/// Replies to a part of an iteration that is closed at its positions: it has had its effect, or has
/// failed with the iteration.
void Shard::reply_closed(ShardTable& table, const OpenIterations::Part& part, uint64_t iteration) {
    const auto failure = failure_at(table, iteration, part.first);
    if (failure)
        return replies_.reply_failed_when_replicated(part.connection, part.request, *failure);
    replies_.reply_when_replicated(part.connection, part.request, Errc::kOk);
}

/// If an open iteration will not be closed: replies to the parts that have arrived.
void Shard::reply_hopeless(ShardTable& table, uint64_t iteration) {
    const auto failure = table.iterations.state().failure_of(iteration);
    if (!failure || !table.iterations.state().is_hopeless(iteration)) return;
    table.iterations.give_up(iteration, [&](const OpenIterations::Part& part) {
        if (part.is_closed) return reply_closed(table, part, iteration);
        replies_.reply_failed(part.connection, part.request, *failure);
    });
}

/// What the shard is primary of has changed.
void Shard::restart_iterations(ShardTable& table) {
    table.iterations.restart(primary_ranges(), [&](const OpenIterations::Part& part) {
        replies_.reply(part.connection, part.request, Errc::kStaleEpoch, view_.epoch());
    });
}

/// Ends the iterations that have all their parts, in order. The rule changes any row, so it waits
/// while some are pinned. `all`: what the first one that ends has changed, if that was not in a sum.
void Shard::finish_iterations(ShardTable& table, const Entries* all) {
    close_iterations(table, all);
    if (watch_every_ != 0) [[unlikely]]
        watch_iterations(table);
}

void Shard::close_iterations(ShardTable& table, const Entries* all) {
    IterationProgress& iterations = table.iterations.state();
    while (iterations.complete()) {
        table.was_pushed = true;
        retry_ |= !table.deferred.empty();
        if (is_moving_) streams_.iteration_closes();
        aggregated_.clear();
        if (iterations.close_empty()) {
            if (is_moving_) streams_.iteration_closed(table, aggregated_);
            continue;
        }
        const uint64_t closing = iterations.first_open();
        if (!iterations.failure_of(closing) && table.pins.any()) return table.pins.hold_iteration();
        if (all == nullptr && streams_.records_iterations())
            table.rows->list_aggregated(closing, aggregated_);
        table.iterations.close(
            [&](const OpenIterations::Part& part) { reply_closed(table, part, closing); });
        const Entries* const only = std::exchange(all, nullptr);
        if (!is_moving_) continue;
        if (only != nullptr) {
            streams_.iteration_closed(table, *only);
        } else {
            streams_.iteration_closed(table, aggregated_);
        }
    }
}

}  // namespace weir

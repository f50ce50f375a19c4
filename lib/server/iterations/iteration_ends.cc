// SPDX-License-Identifier: Apache-2.0
/// \file
/// Parts, once they have been added or have failed, and the ends of iterations.

#include "lib/server/iterations/iteration_parts.h"
#include "lib/wire/checkpoint_message.h"

namespace weir {

/// A part of an open iteration has had its effect, or has failed. If its key list is not known,
/// the part does not count: the worker sends it again with its keys. `outcome`: kOk, or how its iteration fails
/// by it. `all`: as finish().
void IterationParts::end(ShardTable& table, const OpenIterations::Part& part,
                         const wire::FrameHeader& header, const IterationFailure& outcome,
                         const Entries* all) {
    const Errc status = outcome.status;
    if (status == Errc::kUnknownList) return replies_.reply(part.connection, part.request, status);
    const auto failure = table.iterations.arrived(header.iteration, part, header.parts, outcome);
    if (failure) replies_.reply_failed(part.connection, part.request, *failure);
    if (status != Errc::kOk) waiting_.retry_deferred(table);  // pulls of the iteration
    finish(table, all);
}

void IterationParts::end_unused(ShardTable& table, const Session& session,
                                const wire::FrameHeader& part, Errc status) {
    const auto failure = table.iterations.excuse(
        part.iteration, {session.connection, part.request, session.worker, part.time, std::nullopt},
        status);
    if (failure) replies_.reply_failed(session.connection, part.request, *failure);
    waiting_.retry_deferred(table);
    finish(table);
}

/// A worker sends more parts than it announced; or its iteration failed, and it may not know yet;
/// or its part of an iteration before it is missing. That one was sent before, but there was no room
/// for it when it came.
void IterationParts::refuse(ShardTable& table, const Session& session,
                            const wire::FrameHeader& part, IterationProgress::Verdict verdict) {
    const IterationProgress& iterations = table.iterations.state();
    if (const auto failure = iterations.failure_for(part.iteration, session.worker))
        return replies_.reply_failed(session.connection, part.request, *failure);
    const bool comes_again = verdict == IterationProgress::Verdict::kSkips;
    replies_.reply(session.connection, part.request,
                   comes_again ? Errc::kBusy : Errc::kInvalidArgument,
                   iterations.last_seen(session.worker));
}

/// Replies to a part of an iteration that is closed at its positions: it has had its effect, or has
/// failed with the iteration.
void IterationParts::reply_closed(ShardTable& table, const OpenIterations::Part& part,
                                  uint64_t iteration) {
    const auto failure = failure_at(table, iteration, part.first);
    if (failure)
        return replies_.reply_failed_when_replicated(part.connection, part.request, *failure);
    replies_.reply_when_replicated(part.connection, part.request, Errc::kOk);
}

void IterationParts::restart(ShardTable& table) {
    table.iterations.restart(standing_.primary_ranges(), [&](const OpenIterations::Part& part) {
        replies_.reply(part.connection, part.request, Errc::kStaleEpoch, view_.epoch());
    });
}

void IterationParts::end_all(ShardTable& table, Errc why) {
    table.iterations.state().end({why});
    reply_hopeless(table);
    waiting_.retry();
}

void IterationParts::reply_hopeless(ShardTable& table) {
    const IterationProgress& iterations = table.iterations.state();
    for (uint64_t i = iterations.first_open(); i <= iterations.last_open(); ++i) {
        const auto failure = iterations.failure_of(i);
        if (!failure || !iterations.is_hopeless(i)) continue;
        table.iterations.give_up(i, [&](const OpenIterations::Part& part) {
            if (part.is_closed) return reply_closed(table, part, i);
            replies_.reply_failed(part.connection, part.request, *failure);
        });
    }
}

void IterationParts::finish(ShardTable& table, const Entries* all) {
    close_complete(table, all);
    if (watch_every_ != 0) [[unlikely]]
        tell_closed(table);
}

void IterationParts::close_complete(ShardTable& table, const Entries* all) {
    IterationProgress& iterations = table.iterations.state();
    while (iterations.complete()) {
        table.was_pushed = true;
        waiting_.retry_deferred(table);
        if (standing_.is_moving()) replication_.streams().iteration_closes();
        aggregated_.clear();
        if (iterations.close_empty()) {
            if (standing_.is_moving()) replication_.streams().iteration_closed(table, aggregated_);
            continue;
        }
        const uint64_t closing = iterations.first_open();
        if (!iterations.failure_of(closing) && table.pins.any()) return table.pins.hold_iteration();
        if (all == nullptr && replication_.streams().records_iterations())
            table.rows->list_aggregated(closing, aggregated_);
        table.iterations.close(
            [&](const OpenIterations::Part& part) { reply_closed(table, part, closing); });
        const Entries* const only = std::exchange(all, nullptr);
        if (!standing_.is_moving()) continue;
        if (only != nullptr) {
            replication_.streams().iteration_closed(table, *only);
        } else {
            replication_.streams().iteration_closed(table, aggregated_);
        }
    }
}

void IterationParts::tell_closed(ShardTable& table) {
    if (!table.rows->schema().in_checkpoints) return;
    const uint64_t closed = table.iterations.state().last_closed();
    if (closed / watch_every_ <= table.watched) return;
    table.watched = closed / watch_every_;
    CheckpointReport report{.step = CheckpointReport::Step::kDue};
    report.tables = {{table.rows->schema().id, closed}};
    if (!standing_.has_lost_manager())
        to_manager_.send(wire::header_of(wire::Kind::kCheckpoint), report.encode());
}

}  // namespace weir

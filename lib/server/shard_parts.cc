// SPDX-License-Identifier: Apache-2.0
/// \file
/// Parts of iterations, once they have been added or have failed: an iteration ends when it has
/// the parts of all workers and the one before it has ended, and fails when a part fails or a
/// worker will send no more.

#include "lib/base/log.h"
#include "lib/server/shard.h"

namespace weir {

/// An admitted part of an open iteration has had its effect, or has failed. If its key list is
/// not known, the part does not count: the worker sends it again with its keys.
void Shard::end_part(ShardTable& table, const Session& session, const wire::FrameHeader& part,
                     Errc status) {
    if (status == Errc::kUnknownList) {
        table.iterations.state().withdraw(part.iteration, session.worker);
        return reply(session.connection, part.request, status);
    }
    const OpenIterations::Part arrived{session.connection, part.request, session.worker, part.time,
                                       part.first};
    const auto failure = table.iterations.arrived(part.iteration, arrived, status);
    if (failure) {
        reply_failed(session.connection, part.request, *failure);
        answer_failed(table, part.iteration);
    }
    finish_iterations(table);
}

/// Whether the part has arrived before, on a connection that broke. That one counts; this one gets
/// the answer.
bool Shard::is_repeated(ShardTable& table, const Session& session, const wire::FrameHeader& part) {
    if (session.hello <= 1) return false;  // nothing was sent before
    return table.iterations.replace(
        part.iteration, {session.connection, part.request, session.worker, part.time, part.first});
}

/// If an open iteration has failed: drops its sum, answers the parts that have arrived, and has
/// the deferred requests looked at again.
void Shard::answer_failed(ShardTable& table, uint64_t iteration) {
    const auto failure = table.iterations.state().failure_of(iteration);
    if (!failure) return;
    table.iterations.take_failed(iteration, [&](const OpenIterations::Part& part) {
        reply_failed(part.connection, part.request, *failure);
    });
    retry_ |= !table.deferred.empty();
}

/// Ends the iterations that have all their parts, in order. The rule changes any row, so it waits
/// while some are pinned.
void Shard::finish_iterations(ShardTable& table) {
    const Iterations& iterations = table.iterations.state();
    while (iterations.complete()) {
        const bool failed = iterations.failure_of(iterations.first_open()).has_value();
        if (!failed && table.pins.any()) return table.pins.hold_iteration();
        table.iterations.close([&](const OpenIterations::Part& part) {
            reply(part.connection, part.request, Errc::kOk);
        });
        retry_ |= !table.deferred.empty();
    }
}

/// The manager says that a worker is lost. If the worker is connected here, its pushes may still
/// arrive, and it counts as lost when its connection closes. If it is not, it counts as lost now.
void Shard::manager_lost_worker(uint64_t worker) {
    if (worker >= sessions_.worker_count()) {
        return log(LogLevel::kWarning,
                   "{}: the manager says that worker {} is lost; the job has {} workers", name(),
                   worker, sessions_.worker_count());
    }
    if (sessions_.is_lost(worker)) return;
    sessions_.leaves(static_cast<uint32_t>(worker));
    if (sessions_.is_connected(worker)) return;
    expect_no_more_parts_of(static_cast<uint32_t>(worker));
}

/// A worker says that it gives up: it will push no further part of an iteration. Its own requests
/// that wait for an iteration fail, too, here or when they are admitted again, so that it gets
/// its buffers back.
void Shard::worker_gave_up(const Session& session, uint64_t request) {
    if (session.worker < sessions_.worker_count()) {
        expect_no_more_parts_of(session.worker);
        for (const auto& table : tables_) {
            if (table == nullptr) continue;
            const auto answer = [&](const OpenIterations::Part& part) {
                reply_failed(part.connection, part.request, {Errc::kPeerLost, session.worker});
            };
            table->iterations.take_parts_of(session.connection, answer);
        }
    }
    reply(session.connection, request, Errc::kOk);
}

/// The worker's connection is closed (it died, or has left), or it gave up, or the manager lost
/// it before it came here: answers the requests that wait for a part of it.
void Shard::expect_no_more_parts_of(uint32_t worker) {
    sessions_.lose(worker);
    for (const auto& table : tables_) {
        if (table == nullptr) continue;
        Iterations& iterations = table->iterations.state();
        iterations.lose(worker);
        for (uint64_t i = iterations.first_open(); i <= iterations.last_open(); ++i)
            answer_failed(*table, i);
    }
    retry_ = true;
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Parts of iterations, once they have been added or have failed: an iteration ends when it has
/// the parts of all workers, and fails when a part fails or a worker will send no more.

#include <utility>

#include "lib/base/log.h"
#include "lib/server/shard.h"

namespace weir {

/// An admitted part of the open iteration has had its effect, or has failed. If its key list is
/// not known, the part does not count: the worker sends it again with its keys.
void Shard::end_part(ShardTable& table, const Session& session, uint64_t request, Errc status) {
    Iterations& iterations = table.iterations;
    if (status == Errc::kUnknownList) {
        iterations.withdraw(session.worker);
        return reply(session.connection, request, status);
    }
    if (status != Errc::kOk) iterations.fail({status, session.worker});
    if (const auto failure = iterations.failure_for(iterations.open(), session.worker)) {
        reply_failed(session.connection, request, *failure);
    } else {
        table.to_acknowledge.push_back({session.connection, request});
    }
    answer_failed(table);
    if (iterations.arrived(session.worker)) finish_iteration(table);
}

/// If the open iteration has failed: drops its sum, answers the parts that have arrived, and has
/// the deferred requests looked at again.
void Shard::answer_failed(ShardTable& table) {
    const auto failure = table.iterations.failure_of(table.iterations.open());
    if (!failure) return;
    if (std::exchange(table.aggregated, false)) table.rows->drop_aggregate();
    for (const ShardTable::Acknowledgement& waiting : std::exchange(table.to_acknowledge, {}))
        reply_failed(waiting.connection, waiting.request, *failure);
    retry_ |= !table.deferred.empty();
}

void Shard::finish_iteration(ShardTable& table) {
    const bool failed = table.iterations.failure_of(table.iterations.open()).has_value();
    if (!failed && table.pins.any()) return table.pins.hold_iteration();
    if (std::exchange(table.aggregated, false)) table.rows->apply_aggregate();
    table.iterations.close();
    for (const ShardTable::Acknowledgement& done : table.to_acknowledge)
        reply(done.connection, done.request, Errc::kOk);
    table.to_acknowledge.clear();
    retry_ |= !table.deferred.empty();
}

/// The manager says that a worker is lost. If the worker is connected here, its pushes may still
/// arrive, and it counts as lost when its connection closes. If it is not, it counts as lost now.
void Shard::manager_lost_worker(uint64_t worker) {
    if (worker >= sessions_.worker_count()) {
        return log(LogLevel::kWarning,
                   "{}: the manager says that worker {} is lost; the job has {} workers", name(),
                   worker, sessions_.worker_count());
    }
    if (sessions_.is_lost(worker) || sessions_.is_connected(worker)) return;
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
            std::erase_if(table->to_acknowledge, [&](const ShardTable::Acknowledgement& waiting) {
                if (waiting.connection != session.connection) return false;
                reply_failed(waiting.connection, waiting.request,
                             {Errc::kPeerLost, session.worker});
                return true;
            });
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
        table->iterations.lose(worker);
        answer_failed(*table);
    }
    retry_ = true;
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Who takes part in iterations: the workers of the view, each from its first iteration on; until
/// one is lost, which ends what waits for a part of it.

#include <algorithm>
#include <vector>

#include "lib/base/log.h"
#include "lib/server/shard.h"

namespace weir {

using wire::Kind;

/// The shard has a new view. Workers that are gone are forgotten, and nothing of them is executed.
void Shard::apply_members() {
    const ViewData& view = view_.data();
    for (const ConnectionId connection : sessions_.apply_view(view.workers, view.next_worker)) {
        const Session* const session = sessions_.find(connection);
        if (session == nullptr) continue;
        if (sessions_.is_gone(session->worker)) {
            endpoint_->close(connection);
            closed(connection);
        } else {
            refuse_worker(connection);
        }
    }
    std::vector<uint32_t> numbers;
    for (const ViewWorker& worker : view.workers)
        numbers.push_back(worker.number);
    for (const auto& table : tables_) {
        if (table == nullptr) continue;
        table->clocks.drop_gone(numbers, view.next_worker);
        set_members(*table);
    }
}

void Shard::set_members(ShardTable& table) const {
    IterationProgress& iterations = table.iterations.state();
    std::vector<IterationMember> members;
    for (const ViewWorker& worker : view_.workers()) {
        const uint64_t first =
            std::max(view_.first_iteration(worker.number, table.rows->schema().id),
                     table.closed_at_start + 1);
        if (first <= ClosedState::kIterationMax) members.push_back({worker.number, first});
    }
    iterations.set_members(members);
    for (const IterationMember& member : members) {
        if (sessions_.is_lost(member.worker)) iterations.lose(member.worker);
    }
    // Also those of iterations that are closed here: a segment that is to come may have them open.
    std::vector<IterationProgress::Withdrawal> withdrawals;
    for (const ViewWithdrawal& of : view_.data().withdrawals) {
        if (of.table == table.rows->schema().id)
            withdrawals.push_back({of.worker, of.first_iteration, of.last_iteration});
    }
    table.iterations.set_withdrawals(std::move(withdrawals));
    if (table.rows->schema().id < ended_tables_) iterations.end({Errc::kReassigned});
}

/// The manager says that workers have come or gone, and that all take the work anew: nobody pushes
/// further parts to the tables below this number.
void Shard::end_iterations(uint64_t tables_end) {
    ended_tables_ = std::max(ended_tables_, tables_end);
    for (const auto& table : tables_) {
        const bool is_over = table != nullptr && table->rows->schema().id < ended_tables_;
        if (is_over && !table->is_dropped) end_iterations(*table, Errc::kReassigned);
    }
}

/// Whoever waits for one hears `why`.
void Shard::end_iterations(ShardTable& table, Errc why) {
    IterationProgress& iterations = table.iterations.state();
    iterations.end({why});
    for (uint64_t i = iterations.first_open(); i <= iterations.last_open(); ++i)
        reply_hopeless(table, i);
    retry_ = true;
}

/// A view has come: what was held goes on, unless the question for it was for this view, or for a
/// later one. A member may be gone, so iterations may be complete now.
void Shard::release_iterations() {
    for (const auto& table : tables_) {
        if (table == nullptr) continue;
        if (held_in_ < view_.epoch()) table->iterations.state().release();
        finish_iterations(*table);
    }
}

/// The manager asks from which iteration on a new worker can take part: from the first one above
/// the window. So none is closed from there on until the next view, which has the worker, or after
/// which the manager asks again. A question of an older view holds nothing: the reply is void. One
/// without tables says that the last one is given up.
void Shard::reply_first_iterations(std::span<const std::byte> body) {
    const auto asked = AskFirstIterationMessage::decode(body);
    if (!asked) {
        return end(Error(Errc::kProtocol, "the manager sent a malformed question for iterations"));
    }
    if (asked->tables.empty()) {
        if (held_in_ == asked->epoch) held_in_ = 0;
        return release_iterations();
    }
    const bool holds = asked->epoch >= view_.epoch();
    if (holds) held_in_ = std::max(held_in_, asked->epoch);
    for (const uint32_t number : asked->tables) {
        uint64_t first = 1;  // of a table that could not be made here
        if (number < tables_.size() && tables_[number] != nullptr) {
            IterationProgress& iterations = tables_[number]->iterations.state();
            first = holds ? iterations.hold() : iterations.last_open() + 1;
        }
        to_manager_.send(wire::header_of(Kind::kFirstIteration),
                         FirstIterationMessage{asked->epoch, number, first}.encode());
    }
}

/// Its server was leaving, but the others cannot take over what it holds.
void Shard::told_to_stay(std::span<const std::byte> why) const {
    log(LogLevel::kWarning, "{}; it serves on",
        decode_text(why).value_or("the manager says that this server cannot leave"));
}

/// The manager says that a worker is lost, and that the job does not go on without it. If the
/// worker is connected here, its pushes may still arrive, and it counts as lost when it says that
/// it gives up, or its connection closes. If it is not, it counts as lost now.
void Shard::manager_lost_worker(uint64_t worker) {
    if (!sessions_.is_member(worker)) {
        return log(LogLevel::kWarning,
                   "{}: the manager says that worker {} is lost; view {} does not have it", name(),
                   worker, view_.epoch());
    }
    if (sessions_.is_lost(worker)) return;
    sessions_.leaves(worker);
    if (sessions_.is_connected(worker) && !sessions_.has_given_up(worker)) return;
    expect_no_more_parts_of(static_cast<uint32_t>(worker));
}

/// A worker says that it gives up: it will push no further part of an iteration. Its own requests
/// that wait for an iteration fail, so that it gets its buffers back. Whether others fail that wait
/// for its parts is the job's choice: the manager tells.
void Shard::worker_gave_up(const Session& session, uint64_t request) {
    if (session.is_member) {
        sessions_.gives_up(session.worker);
        if (manager_lost_ || sessions_.is_leaving(session.worker))
            expect_no_more_parts_of(session.worker);
        for (const auto& table : tables_) {
            if (table == nullptr) continue;
            const auto reply = [&](const OpenIterations::Part& part) {
                replies_.reply_failed(part.connection, part.request,
                                      {Errc::kPeerLost, session.worker});
            };
            table->iterations.take_parts_of(session.connection, reply);
        }
    }
    replies_.reply(session.connection, request, Errc::kOk);
}

/// The worker's connection is closed (it died, or has left), or it gave up, or the manager lost
/// it before it came here: replies to the requests that wait for a part of it.
void Shard::expect_no_more_parts_of(uint32_t worker) {
    sessions_.lose(worker);
    for (const auto& table : tables_) {
        if (table == nullptr) continue;
        IterationProgress& iterations = table->iterations.state();
        iterations.lose(worker);
        for (uint64_t i = iterations.first_open(); i <= iterations.last_open(); ++i)
            reply_hopeless(*table, i);
    }
    retry_ = true;
}

}  // namespace weir

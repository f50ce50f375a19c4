// SPDX-License-Identifier: Apache-2.0
#include "lib/server/members/members.h"

#include <algorithm>
#include <vector>

#include "lib/base/log.h"

namespace weir {

using wire::Kind;

void Members::apply_view() {
    const ViewData& view = view_.data();
    std::vector<uint32_t> numbers;
    for (const ViewWorker& worker : view.workers)
        numbers.push_back(worker.number);
    for (ShardTable* const table : tables_) {
        table->clocks.drop_gone(numbers, view.next_worker);
        set(*table);
    }
}

void Members::set(ShardTable& table) const {
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

void Members::end_iterations(uint64_t tables_end) {
    ended_tables_ = std::max(ended_tables_, tables_end);
    for (ShardTable* const table : tables_) {
        const bool is_over = table->rows->schema().id < ended_tables_;
        if (is_over && !table->is_dropped) parts_.end_all(*table, Errc::kReassigned);
    }
}

void Members::release_iterations() {
    for (ShardTable* const table : tables_) {
        if (held_in_ < view_.epoch()) table->iterations.state().release();
        parts_.finish(*table);
    }
}

/// It can from the first iteration above the window on. So none is closed from there on until the
/// next view, which has the worker, or after which the manager asks again. A question of an older
/// view holds nothing: the reply is void. One without tables says that the last one is given up.
void Members::reply_first_iterations(std::span<const std::byte> body) {
    const auto asked = AskFirstIterationMessage::decode(body);
    if (!asked) {
        return standing_.end(
            Error(Errc::kProtocol, "the manager sent a malformed question for iterations"));
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

/// If the worker is connected here, its pushes may still arrive, and it counts as lost when it says
/// that it gives up, or its connection closes. If it is not, it counts as lost now.
void Members::lose(uint64_t worker) {
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

/// Its own requests that wait for an iteration fail, so that it gets its buffers back. Whether
/// others fail that wait for its parts is the job's choice: the manager tells.
void Members::gave_up(const Session& session, uint64_t request) {
    if (session.is_member) {
        sessions_.gives_up(session.worker);
        if (standing_.has_lost_manager() || sessions_.is_leaving(session.worker))
            expect_no_more_parts_of(session.worker);
        for (ShardTable* const table : tables_) {
            const auto reply = [&](const OpenIterations::Part& part) {
                replies_.reply_failed(part.connection, part.request,
                                      {Errc::kPeerLost, session.worker});
            };
            table->iterations.take_parts_of(session.connection, reply);
        }
    }
    replies_.reply(session.connection, request, Errc::kOk);
}

void Members::expect_no_more_parts_of(uint32_t worker) {
    sessions_.lose(worker);
    for (ShardTable* const table : tables_) {
        table->iterations.state().lose(worker);
        parts_.reply_hopeless(*table);
    }
    waiting_.retry();
}

}  // namespace weir

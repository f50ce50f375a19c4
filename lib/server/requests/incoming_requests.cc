// SPDX-License-Identifier: Apache-2.0
#include "lib/server/requests/incoming_requests.h"

#include <utility>

namespace weir {

using wire::Kind;

void IncomingRequests::accept(Session& session, Request& request) {
    const wire::FrameHeader& h = request.header;
    switch (standing_.judge(h.epoch)) {
        case ShardStanding::OfEpoch::kServed: break;
        case ShardStanding::OfEpoch::kStale:
            return replies_.reply(session.connection, h.request, Errc::kStaleEpoch, view_.epoch());
        case ShardStanding::OfEpoch::kEarly:
            return waiting_.defer(session, request, Wait::kView, waiting_.early());
    }
    // Its number was not given out yet, but it names a view that has come.
    if (!session.is_member) return connections_.refuse_worker(session.connection);
    if (h.table >= tables_.size() || tables_[h.table] == nullptr || tables_[h.table]->is_dropped) {
        return replies_.reply(session.connection, h.request, Errc::kNotFound);
    }
    ShardTable& table = *tables_[h.table];
    const Errc wrong = check(table, request);
    if (wrong == Errc::kProtocol)
        return connections_.refuse(session.connection,
                                   "a push or pull whose size of values does not match its keys");
    if ((h.flags & wire::kAggregate) != 0) return parts_.accept(session, table, request, wrong);
    if (wrong != Errc::kOk) return replies_.reply(session.connection, h.request, wrong);
    if (h.kind == Kind::kPush) return pushes_.accept(session, table, request);
    if (h.iteration > 0) {
        const IterationProgress& iterations = table.iterations.state();
        if (h.iteration > iterations.last_closed()) {
            // One that has failed but will be closed may not fail at a shard that takes over.
            const auto failure = iterations.hopeless(h.iteration, session.worker);
            if (failure) return replies_.reply_failed(session.connection, h.request, *failure);
            return waiting_.defer(session, request, Wait::kIteration, table.deferred);
        }
        const auto failure = failure_at(table, h.iteration, first_position(table, request));
        if (failure)
            return replies_.reply_failed_when_replicated(session.connection, h.request, *failure);
    }
    reads_.start(session, table, request);
}

Errc IncomingRequests::check(const ShardTable& table, const Request& request) const {
    const wire::FrameHeader& h = request.header;
    const TableSchema& schema = table.rows->schema();
    if (h.value_type != static_cast<uint8_t>(schema.value_type)) return Errc::kTypeMismatch;
    // decode() bounds the count, and the schema bounds the row size: nothing here overflows.
    const RowLayout& layout = table.rows->row_layout();
    const auto has_room = [&](uint64_t bytes) {
        return bytes + sizeof(wire::FrameHeader) <= endpoint_.capabilities().message_bytes_max;
    };
    const uint64_t bytes = h.count * row_bytes_of(request, layout);
    bool fits = false;
    if (h.kind == Kind::kPush && request.is_encoded()) [[unlikely]] {
        const size_t given = request.has(wire::kValuesRemote) ? request.values_at.length_bytes
                                                              : request.values.size();
        // As many bytes of values as any other push has at most, whatever the body becomes.
        fits = given > 0 && bytes <= wire::kRequestBytesMax &&
               given <= body_bytes_max(table.rows->pushed_form(h.count));
    } else if ((h.flags & wire::kValuesRemote) != 0) {
        fits = request.values_at.length_bytes == bytes;
    } else {
        fits = h.kind == Kind::kPush ? request.values.size() == bytes : has_room(bytes);
    }
    const bool is_sound = fits && (!request.calls() || CallMessage::decode(request.arguments));
    if (!is_sound) return Errc::kProtocol;
    if (h.encoding == 0) [[likely]]
        return Errc::kOk;
    const bool has_stamps = (h.encoding & (wire::kErases | wire::kHasStamp)) != 0;
    if (has_stamps && !schema.erasable) return Errc::kInvalidArgument;
    if (request.asks_written() && schema.layout == Layout::kDense) return Errc::kInvalidArgument;
    if ((h.encoding & wire::kWantsValues) == 0) return Errc::kOk;
    const uint64_t out_bytes = h.count * layout.value_bytes();
    const bool out_fits = (h.encoding & wire::kOutRemote) != 0
                              ? request.out_at.length_bytes == out_bytes
                              : has_room(out_bytes);
    return out_fits ? Errc::kOk : Errc::kProtocol;
}

void IncomingRequests::close_refused() {
    for (const WaitingRequests::Refused& one : waiting_.take_refused())
        connections_.refuse(one.connection, one.why);
}

size_t IncomingRequests::retry() {
    waiting_.end_retry();
    size_t done = retry(waiting_.early());
    for (ShardTable* const table : tables_) {
        if (table->pins.may_go_on() && table->pins.take_push()) {
            pushes_.run_queues(*table);
            ++done;
        }
        done += retry(table->deferred);
    }
    return done;
}

size_t IncomingRequests::retry(RequestQueue& queue) {
    const RequestQueue all = std::exchange(queue, {});
    for (const uint32_t slot : all) {
        KeptRequest& request = waiting_.requests()[slot];
        request.wait = Wait::kNothing;
        if (Session* const session = sessions_.find(request.connection)) accept(*session, request);
        waiting_.end_unless_waiting(request);
    }
    return all.size();
}

size_t IncomingRequests::run_fetched() {
    size_t done = waiting_.fetcher().start();
    while (KeptRequest* const next = waiting_.fetcher().next()) {
        next->wait = Wait::kNothing;
        if (Session* const session = sessions_.find(next->connection)) fetched(*session, *next);
        waiting_.end_unless_waiting(*next);
        ++done;
    }
    return done;
}

void IncomingRequests::fetched(Session& session, KeptRequest& request) {
    const wire::FrameHeader& h = request.header;
    const bool is_part = request.has(wire::kAggregate);
    ShardTable* const table = tables_[h.table];
    if (table == nullptr || table->is_dropped) return waiting_.refuse(request, Errc::kNotFound);
    if (h.kind == Kind::kPush && !is_part) return pushes_.fetched(session, *table, request);
    // The connection is about to close; the worker sends the request again on another one.
    if (request.status == Errc::kPeerLost || request.status == Errc::kCancelled) return;
    if (!may_still_run(session, request)) return;
    if (request.status == Errc::kOk)
        return is_part ? parts_.apply(*table, request) : reads_.apply(*table, request);
    if (is_part) return parts_.end_unused(*table, session, h, request.status);
    waiting_.refuse(request, request.status);
}

/// Much may have happened while the bytes of a pull or part were read. If it may not go on, it is
/// replied to.
bool IncomingRequests::may_still_run(const Session& session, const Request& request) {
    const wire::FrameHeader& h = request.header;
    if (standing_.judge(h.epoch) != ShardStanding::OfEpoch::kServed) {
        waiting_.refuse(request, Errc::kStaleEpoch, view_.epoch());
        return false;
    }
    if (h.kind == Kind::kPull) return true;
    switch (parts_.judge(session, *tables_[h.table], request)) {
        case IterationProgress::Verdict::kNow: return true;
        case IterationProgress::Verdict::kLater:
            replies_.reply(request.connection, h.request, Errc::kBusy);
            return false;
        default: return false;
    }
}

}  // namespace weir

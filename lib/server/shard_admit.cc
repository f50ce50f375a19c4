// SPDX-License-Identifier: Apache-2.0
/// \file
/// Before a push or pull takes effect: is its table known and its size right, and is it its turn.
/// If it is (shard_fetch.cc goes on), it is not looked at again.

#include <utility>

#include "lib/server/shard.h"

namespace weir {

using wire::Kind;

void Shard::admit(Session& session, Request& request) {
    const wire::FrameHeader& h = request.header;
    switch (judge_epoch(h.epoch)) {
        case OfEpoch::kServed: break;
        case OfEpoch::kStale:
            return replies_.reply(session.connection, h.request, Errc::kStaleEpoch, view_.epoch());
        case OfEpoch::kEarly: return defer(session, request, Wait::kView, early_);
    }
    // Its number was not given out yet, but it names a view that has come.
    if (!session.is_member) return refuse_worker(session.connection);
    if (h.table >= tables_.size() || tables_[h.table] == nullptr || tables_[h.table]->is_dropped) {
        return replies_.reply(session.connection, h.request, Errc::kNotFound);
    }
    ShardTable& table = *tables_[h.table];
    const Errc wrong = check(table, request);
    if (wrong == Errc::kProtocol)
        return refuse(session.connection,
                      "a push or pull whose size of values does not match its keys");
    if ((h.flags & wire::kAggregate) != 0) return admit_part(session, table, request, wrong);
    if (wrong != Errc::kOk) return replies_.reply(session.connection, h.request, wrong);
    if (h.kind == Kind::kPush) return admit_push(session, table, request);
    if (h.iteration > 0) {
        const IterationProgress& iterations = table.iterations.state();
        if (h.iteration > iterations.last_closed()) {
            // One that has failed but will be closed may not fail at a shard that takes over.
            const auto failure = iterations.hopeless(h.iteration, session.worker);
            if (failure) return replies_.reply_failed(session.connection, h.request, *failure);
            return defer(session, request, Wait::kIteration, table.deferred);
        }
        const auto failure = failure_at(table, h.iteration, first_position(table, request));
        if (failure)
            return replies_.reply_failed_when_replicated(session.connection, h.request, *failure);
    }
    start(session, request);
}

/// `status`: what check() found wrong with the part. The part may also say (part_status) that
/// its worker cannot send it. In both cases its iteration fails, and waits for nothing more of the
/// worker.
void Shard::admit_part(Session& session, ShardTable& table, Request& request, Errc status) {
    const wire::FrameHeader& h = request.header;
    const IterationProgress& iterations = table.iterations.state();
    switch (judge_part(session, table, request)) {
        case IterationProgress::Verdict::kNow: break;
        case IterationProgress::Verdict::kLater:
            if (const auto failure = iterations.failure_for(h.iteration, session.worker)) {
                return replies_.reply_failed(session.connection, h.request, *failure);
            }
            return defer(session, request, Wait::kIteration, table.deferred);
        default: return;
    }
    if (h.part_status != Errc::kOk) status = Errc::kCancelled;
    if (status != Errc::kOk) return end_unused_part(table, session, h, status);
    start(session, request);
}

/// Says what to do with a part of a member, and replies to it unless that is kNow or kLater.
IterationProgress::Verdict Shard::judge_part(const Session& session, ShardTable& table,
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
        default: refuse_part(table, session, part, verdict);
    }
    return verdict;
}

/// A shard serves all epochs in which it owned what it owns now. A later one may be on its way: a
/// worker may have a view before the shard has it.
Shard::OfEpoch Shard::judge_other_epoch(uint32_t epoch) const noexcept {
    const auto ahead = static_cast<int32_t>(epoch - static_cast<uint32_t>(view_.epoch()));
    if (ahead > 0) return OfEpoch::kEarly;
    const auto behind = static_cast<uint64_t>(-int64_t{ahead});
    return behind <= view_.epoch() - since_ ? OfEpoch::kServed : OfEpoch::kStale;
}

Errc Shard::check(const ShardTable& table, const Request& request) const {
    const wire::FrameHeader& h = request.header;
    const TableSchema& schema = table.rows->schema();
    if (h.value_type != static_cast<uint8_t>(schema.value_type)) return Errc::kTypeMismatch;
    // decode() bounds the count, and the schema bounds the row size: nothing here overflows.
    const RowLayout& layout = table.rows->row_layout();
    const auto has_room = [&](uint64_t bytes) {
        return bytes + sizeof(wire::FrameHeader) <= endpoint_->capabilities().message_bytes_max;
    };
    const uint64_t bytes = h.count * row_bytes_of(request, layout);
    bool fits = false;
    if ((h.flags & wire::kValuesRemote) != 0) {
        fits = request.values_at.length_bytes == bytes;
    } else {
        fits = h.kind == Kind::kPush ? request.values.size() == bytes : has_room(bytes);
    }
    if (!fits) return Errc::kProtocol;
    if (h.encoding == 0) [[likely]]
        return Errc::kOk;
    const bool has_stamps = (h.encoding & (wire::kErases | wire::kHasStamp)) != 0;
    if (has_stamps && !schema.erasable) return Errc::kInvalidArgument;
    if ((h.encoding & wire::kAsksWritten) != 0 && schema.layout == Layout::kDense)
        return Errc::kInvalidArgument;
    if ((h.encoding & wire::kWantsValues) == 0) return Errc::kOk;
    const uint64_t out_bytes = h.count * layout.value_bytes();
    const bool out_fits = (h.encoding & wire::kOutRemote) != 0
                              ? request.out_at.length_bytes == out_bytes
                              : has_room(out_bytes);
    return out_fits ? Errc::kOk : Errc::kProtocol;
}

/// Ends a push or pull that cannot go on now, or for good.
void Shard::refuse_request(const Request& request, Errc why, uint64_t detail) {
    const uint64_t number = request.header.request;
    request.was_push ? replies_.reply_pushed(request.connection, number, why, detail)
                     : replies_.reply(request.connection, number, why, detail);
}

/// Keeps a request that cannot go on now, unless its worker has too many that wait: then it is replied to.
/// Who waits already, goes on waiting, whatever for.
KeptRequest* Shard::keep(Session& session, const Request& request, Wait why) {
    const bool is_deferred = why == Wait::kView || why == Wait::kIteration;
    const size_t bytes = request.carried_bytes();
    KeptRequest* kept = request.is_kept() ? &requests_[request.slot] : nullptr;
    if (kept == nullptr) {
        const bool has_room = is_deferred ? sessions_.add_deferred(session, bytes)
                                          : sessions_.add_waiting(session, bytes);
        if (!has_room) {
            refuse_request(request, Errc::kBusy);
            return nullptr;
        }
        counters_.bytes_copied += bytes;
        kept = &requests_.keep(request);
        if (request.has(wire::kKeysKnown))
            kept->list = lists_.find(request.header.table, known_list(request));
        kept->is_deferred = is_deferred;
    } else if (kept->is_deferred && !is_deferred) {
        Sessions::end_deferred(session, bytes);
        kept->is_deferred = false;
    }
    WEIR_CHECK(kept->wait == Wait::kNothing && why != Wait::kNothing);
    kept->wait = why;
    return kept;
}

void Shard::defer(Session& session, const Request& request, Wait why, RequestQueue& queue) {
    if (const KeptRequest* const kept = keep(session, request, why)) queue.push_back(kept->slot);
}

/// A kept request was looked at: it waits again, or has been replied to, or nobody waits for its reply. A push
/// that was executed from its queue has been ended there.
void Shard::end_unless_waiting(KeptRequest& request) {
    if (!request.is_kept() || request.wait != Wait::kNothing) return;
    if (Session* const session = sessions_.find(request.connection)) {
        const size_t bytes = request.carried_bytes();
        if (request.is_deferred) Sessions::end_deferred(*session, bytes);
        Sessions::end_waiting(*session, bytes);
    }
    fetcher_.release(request);
    requests_.end(request);
}

void Shard::end(KeptRequest& request) {
    request.wait = Wait::kNothing;
    end_unless_waiting(request);
}

/// Its connection is closed.
void Shard::forget(RequestQueue& queue, ConnectionId connection) {
    std::erase_if(queue, [&](uint32_t slot) {
        if (requests_[slot].connection != connection) return false;
        end(requests_[slot]);
        return true;
    });
}

size_t Shard::retry_waiting() {
    retry_ = false;
    size_t done = admit_again(early_);
    for (const auto& table : tables_) {
        if (table == nullptr) continue;
        if (table->pins.may_go_on() && table->pins.take_push()) {
            sessions_.for_each([&](Session& session) { run_queue(session, *table); });
            ++done;
        }
        done += admit_again(table->deferred);
    }
    return done;
}

size_t Shard::admit_again(RequestQueue& queue) {
    const RequestQueue all = std::exchange(queue, {});
    for (const uint32_t slot : all) {
        KeptRequest& request = requests_[slot];
        request.wait = Wait::kNothing;
        if (Session* const session = sessions_.find(request.connection)) admit(*session, request);
        end_unless_waiting(request);
    }
    return all.size();
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Before a push or pull takes effect: is its table known and its size right, and is it its turn.
/// If it is (shard_fetch.cc goes on), it is not looked at again.

#include "lib/server/shard.h"

namespace weir {

using wire::Kind;

namespace {

/// Of keys and values, in the message.
size_t bytes_in(const wire::Frame& frame) noexcept {
    return frame.keys.size() + frame.values.size();
}

}  // namespace

void Shard::admit(Session& session, const wire::Frame& frame) {
    const wire::FrameHeader& h = frame.header;
    switch (judge_epoch(h.epoch)) {
        case OfEpoch::kServed: break;
        case OfEpoch::kStale:
            return reply(session.connection, h.request, Errc::kStaleEpoch, view_.epoch());
        case OfEpoch::kEarly:
            if (may_be_deferred(session, frame)) early_.add(session.connection, frame);
            return;
    }
    // Its number was not given out yet, but it names a view that has come.
    if (!session.is_member) return refuse_worker(session.connection);
    if (h.table >= tables_.size() || tables_[h.table] == nullptr || tables_[h.table]->is_dropped) {
        return reply(session.connection, h.request, Errc::kNotFound);
    }
    ShardTable& table = *tables_[h.table];
    const Errc wrong = check(table, frame);
    if (wrong == Errc::kProtocol)
        return refuse(session.connection,
                      "a push or pull whose size of values does not match its keys");
    if ((h.flags & wire::kAggregate) != 0) return admit_part(session, table, frame, wrong);
    if (wrong != Errc::kOk) return reply(session.connection, h.request, wrong);
    if (h.kind == Kind::kPush) return admit_push(session, table, frame);
    if (h.iteration > 0) {
        const IterationProgress& iterations = table.iterations.state();
        if (h.iteration > iterations.last_closed()) {
            // One that has failed but will be closed may not fail at a shard that takes over.
            const auto failure = iterations.hopeless(h.iteration, session.worker);
            if (failure) return reply_failed(session.connection, h.request, *failure);
            return defer(session, table, frame);
        }
        const auto failure =
            failure_at(table, h.iteration, first_position(table, h, frame.keys, frame.ends));
        if (failure) return promise_failed(session.connection, h.request, *failure);
    }
    start(session, frame);
}

/// `status`: what check() found wrong with the part. The part may also say (part_status) that
/// its worker cannot send it. In both cases its iteration fails, and waits for nothing more of the
/// worker.
void Shard::admit_part(Session& session, ShardTable& table, const wire::Frame& frame, Errc status) {
    const wire::FrameHeader& h = frame.header;
    const IterationProgress& iterations = table.iterations.state();
    switch (judge_part(session, table, h, first_position(table, h, frame.keys, frame.ends))) {
        case IterationProgress::Verdict::kNow: break;
        case IterationProgress::Verdict::kLater:
            if (const auto failure = iterations.failure_for(h.iteration, session.worker)) {
                return reply_failed(session.connection, h.request, *failure);
            }
            return defer(session, table, frame);
        default: return;
    }
    if (h.part_status != Errc::kOk) status = Errc::kCancelled;
    if (status != Errc::kOk) return end_unused_part(table, session, h, status);
    start(session, frame);
}

/// Says what to do with a part of a member, and answers it unless that is kNow or kLater. `first`:
/// the position of its first key, if that is known.
IterationProgress::Verdict Shard::judge_part(const Session& session, ShardTable& table,
                                             const wire::FrameHeader& part,
                                             std::optional<uint64_t> first) {
    IterationProgress& iterations = table.iterations.state();
    const auto verdict = iterations.judge(part.iteration, session.worker, part.parts);
    switch (verdict) {
        case IterationProgress::Verdict::kNow:
        case IterationProgress::Verdict::kLater: break;
        case IterationProgress::Verdict::kPast:
            answer_closed(table,
                          {session.connection, part.request, session.worker, part.time, first},
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

Errc Shard::check(const ShardTable& table, const wire::Frame& frame) const {
    const wire::FrameHeader& h = frame.header;
    const TableSchema& schema = table.rows->schema();
    if (h.value_type != static_cast<uint8_t>(schema.value_type)) return Errc::kTypeMismatch;
    // decode() bounds the count, and the schema bounds the row size: nothing here overflows.
    const size_t row_bytes =
        h.kind == Kind::kPush ? table.rows->pushed_row_bytes() : table.rows->pulled_row_bytes();
    const uint64_t bytes = h.count * row_bytes;
    if ((h.flags & wire::kValuesRemote) != 0) {
        return frame.values_at.length_bytes == bytes ? Errc::kOk : Errc::kProtocol;
    }
    if (h.kind == Kind::kPush) return frame.values.size() == bytes ? Errc::kOk : Errc::kProtocol;
    const uint64_t room = endpoint_->capabilities().message_bytes_max - sizeof(wire::FrameHeader);
    return bytes <= room ? Errc::kOk : Errc::kProtocol;
}

/// Counts a request that has to wait, or answers that too many do.
bool Shard::may_wait(Session& session, const wire::Frame& frame) {
    return note_wait(session, frame, sessions_.add_waiting(session, bytes_in(frame)));
}

/// The same, of one that waits until a view comes or an iteration is closed.
bool Shard::may_be_deferred(Session& session, const wire::Frame& frame) {
    return note_wait(session, frame, sessions_.add_deferred(session, bytes_in(frame)));
}

bool Shard::note_wait(const Session& session, const wire::Frame& frame, bool has_room) {
    if (has_room) {
        counters_.bytes_copied += bytes_in(frame);
    } else {
        reply(session.connection, frame.header.request, Errc::kBusy);
    }
    return has_room;
}

/// Keeps a request until an iteration is closed.
void Shard::defer(Session& session, ShardTable& table, const wire::Frame& frame) {
    if (may_be_deferred(session, frame)) table.deferred.add(session.connection, frame);
}

size_t Shard::retry_waiting() {
    retry_ = false;
    size_t done = admit_again(early_.take());
    for (const auto& table : tables_) {
        if (table == nullptr) continue;
        if (table->pins.may_go_on() && table->pins.take_push()) {
            sessions_.for_each([&](Session& session) { run_queue(session, *table); });
            ++done;
        }
        done += admit_again(table->deferred.take());
    }
    return done;
}

size_t Shard::admit_again(const std::deque<DeferredRequests::Deferred>& requests) {
    for (const DeferredRequests::Deferred& deferred : requests) {
        Session* const session = sessions_.find(deferred.connection);
        if (session == nullptr) continue;
        Sessions::end_deferred(*session, deferred.body.size());
        admit(*session, deferred.frame);
    }
    return requests.size();
}

}  // namespace weir

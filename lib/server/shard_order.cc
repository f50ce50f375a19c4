// SPDX-License-Identifier: Apache-2.0
/// \file
/// The order of pushes, which makes each of them take effect exactly once. A push names the one
/// before it on its connection, and is not executed unless that one was. Its time says whether it
/// was executed before, on a connection that broke before the answer came.

#include <algorithm>

#include "lib/key/key_list.h"
#include "lib/server/shard.h"

namespace weir {

namespace {

ListId known_list(const ShardRequest& request) noexcept {
    const wire::FrameHeader& h = request.header;
    return {h.first, h.count, request.ends.first_key, request.ends.last_key};
}

/// The segments that have keys of a range, the first of which lies in segment `first`.
SegmentRun segments_of(const SegmentList& held, const PositionMap& positions, KeyRange keys,
                       uint32_t first) noexcept {
    const PositionRange segment = held.segments()[first];
    if (keys.end <= positions.end_key_at(segment.last)) return {first, first + 1};
    return held.run_of({segment.first, positions.position(keys.end - 1)});
}

}  // namespace

void Shard::admit_push(Session& session, ShardTable& table, const wire::Frame& frame) {
    PushOrder& order = session.order(frame.header.table);
    ShardRequest request = request_of(session.connection, frame);
    const bool is_here = find_bytes(frame, request);
    if (order.queue.empty() && is_here && execute(session, table, order, request)) {
        return count_mapped(frame);
    }
    if (!may_wait(session, frame)) return;
    QueuedPush& push = order.queue.emplace_back(session.connection, frame);
    if (is_here) return;
    push.state = QueuedPush::State::kFetching;
    fetcher_.add(session.connection, frame);
}

/// Executes the push and answers it; or answers why it was not executed. False: its rows are
/// pinned, or streams have no room for what it changes.
bool Shard::execute(const Session& session, ShardTable& table, PushOrder& order,
                    const ShardRequest& request) {
    const wire::FrameHeader& h = request.header;
    const auto answer = [&](Errc status) {
        promise(request.connection, h.request, status);
        return true;
    };
    if (judge_epoch(h.epoch) != OfEpoch::kServed) return answer(Errc::kStaleEpoch);
    if (h.predecessor() != order.last) return answer(Errc::kAgain);
    if (order.clock == nullptr) {
        order.clock = table.clocks.of(session.worker);
        table.was_pushed = true;
    }
    const uint64_t time = order.whole_time(h.time);
    const uint32_t first = first_segment(table, request);
    const bool was_executed =
        first != SegmentList::kNone && order.clock->of_segment(holdings_.segments(), first) >= time;
    if (was_executed) {
        order.last = request.number;
        return answer(Errc::kOk);
    }
    if (table.pins.stop(h)) {
        table.pins.hold_push();
        return false;
    }
    if (is_moving_) [[unlikely]] {
        const Errc moving = judge_push(table, request);
        if (moving == Errc::kBusy) {
            table.pins.hold_push();
            holds_pushes_ = true;
            return false;
        }
        if (moving != Errc::kOk) return answer(moving);
    }
    const size_t row_count = table.rows->row_count();
    RowList rows;
    const Errc status = change_in_time(table, *order.clock, request, first, time, rows);
    if (status == Errc::kOk) {
        order.last = request.number;
        if (is_moving_) [[unlikely]]
            streams_.pushed(table, session.worker, *order.clock, {request, rows});
    } else {
        record_made_rows(table, request, row_count);
    }
    if (status != Errc::kUnknownList) {
        ++counters_.pushes;
        counters_.keys_pushed += h.count;
    }
    return answer(status);
}

/// The segment that has the push's first key; kNone if it has no keys, or this shard not that one.
uint32_t Shard::first_segment(const ShardTable& table, const ShardRequest& request) const noexcept {
    if (request.header.count == 0) return SegmentList::kNone;
    return holdings_.segments().find(table.positions.position(first_key_of(request)));
}

/// Changes the table, and sets the time of every segment in which the push has a key. After an
/// error nothing is set. `first`: the segment of its first key. `rows`: as of change().
Errc Shard::change_in_time(ShardTable& table, RangeClock& clock, const ShardRequest& request,
                           uint32_t first, uint64_t time, RowList& rows) {
    const wire::FrameHeader& h = request.header;
    const SegmentList& held = holdings_.segments();
    if ((h.flags & wire::kKeysRange) != 0) {
        const Errc status = change(table, request, rows);
        if (status != Errc::kOk || first == SegmentList::kNone) return status;
        const KeyRange keys{h.first, h.first + h.count};
        clock.raise(held, segments_of(held, table.positions, keys, first), time);
        return Errc::kOk;
    }
    const bool is_known = (h.flags & wire::kKeysKnown) != 0;
    const TouchedSegments* touched =
        is_known ? touched_.find(h.table, known_list(request), held) : nullptr;
    if (is_known && touched == nullptr) return Errc::kUnknownList;
    if (const Errc status = change(table, request, rows); status != Errc::kOk) return status;
    if (touched == nullptr) {
        const std::span keys(reinterpret_cast<const uint64_t*>(request.keys.data()), h.count);
        if (keys.size() == 1 && first != SegmentList::kNone) {
            clock.raise(held, {first, first + 1}, time);
            return Errc::kOk;
        }
        touched = &touched_.look_up(h.table, table.positions, keys, rows.id, held);
    }
    clock.raise(held, *touched, time);
    return Errc::kOk;
}

/// Executes what can be executed now, in order.
void Shard::run_queue(Session& session, ShardTable& table) {
    PushOrder& order = session.order(table.rows->schema().id);
    while (!order.queue.empty()) {
        QueuedPush& head = order.queue.front();
        if (head.state == QueuedPush::State::kFetching) return;
        size_t waiting_bytes = 0;
        bool is_over = true;
        switch (head.state) {
            case QueuedPush::State::kInMessage: {
                const wire::Frame& frame = head.message.frame;
                waiting_bytes = head.message.body.size();
                ShardRequest request = request_of(session.connection, frame);
                if (!find_bytes(frame, request)) {  // it was mapped when it came
                    head.state = QueuedPush::State::kFetching;
                    return fetcher_.add(session.connection, frame);
                }
                is_over = execute(session, table, order, request);
                if (is_over) count_mapped(frame);
                break;
            }
            case QueuedPush::State::kFetched:
                is_over = execute(session, table, order, head.request);
                if (is_over) fetcher_.release(head.ticket);
                break;
            default: reply(session.connection, head.message.frame.header.request, head.status);
        }
        if (!is_over) return;
        Sessions::end_waiting(session, waiting_bytes);
        order.queue.pop_front();
    }
}

/// The keys and values of a push are here, or could not be read.
void Shard::fetched_push(Session& session, const Fetched& fetched) {
    ShardTable& table = *tables_[fetched.header.table];
    PushOrder& order = session.order(fetched.header.table);
    std::list<QueuedPush>& queue = order.queue;
    const auto push = std::find_if(queue.begin(), queue.end(), [&](const QueuedPush& p) {
        return p.message.frame.number == fetched.number;
    });
    if (push == queue.end()) return;
    // The connection is about to close; the worker sends the push again on another one.
    if (fetched.status == Errc::kPeerLost || fetched.status == Errc::kCancelled)
        return Sessions::add_waiting_again(session);
    const ShardRequest request{fetched.connection, fetched.header, fetched.keys, fetched.values,
                               fetched.values_at,  fetched.ends,   nullptr,      fetched.room,
                               fetched.number};
    const bool is_first = push == queue.begin();
    if (is_first && fetched.status == Errc::kOk && execute(session, table, order, request)) {
        queue.pop_front();
        return run_queue(session, table);
    }
    Sessions::add_waiting_again(session);
    push->state = QueuedPush::State::kFailed;
    push->status = fetched.status;
    if (fetched.status == Errc::kOk) {
        push->state = QueuedPush::State::kFetched;
        push->request = request;
        push->ticket = fetcher_.keep();
    }
    if (push->state == QueuedPush::State::kFailed) run_queue(session, table);
}

/// A connection is closed: drops what waits from it. The worker sends it again on another one.
void Shard::forget_pushes(Session& session) {
    for (PushOrder& order : session.orders) {
        for (const QueuedPush& push : order.queue) {
            if (push.state == QueuedPush::State::kFetched) fetcher_.release(push.ticket);
        }
        order.queue.clear();
    }
}

}  // namespace weir

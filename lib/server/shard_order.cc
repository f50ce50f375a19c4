// SPDX-License-Identifier: Apache-2.0
/// \file
/// The order of pushes, which makes each of them take effect exactly once. A push names the one
/// before it on its connection, and is not executed unless that one was. Its time says whether it
/// was executed before, on a connection that broke before the answer came.

#include <algorithm>

#include "lib/key/key_list.h"
#include "lib/server/shard.h"

namespace weir {

using wire::Kind;

namespace {

/// More lists than a table's list cache mostly holds. Beyond it all are forgotten, and come in full
/// once more.
constexpr size_t kTouchedListsMax = size_t{1} << 16;

uint64_t first_key_of(const ShardRequest& request) noexcept {
    const wire::FrameHeader& h = request.header;
    if ((h.flags & wire::kKeysRange) != 0) return h.first;
    if ((h.flags & wire::kKeysKnown) != 0) return request.ends.first_key;
    return reinterpret_cast<const uint64_t*>(request.keys.data())[0];
}

}  // namespace

void Shard::admit_push(Session& session, ShardTable& table, const wire::Frame& frame) {
    PushOrder& order = session.order(frame.header.table);
    ShardRequest request{session.connection, frame.header, frame.keys, frame.values,
                         frame.values_at,    frame.ends,   nullptr,    {},
                         frame.number};
    const bool is_here = find_bytes(frame, request);
    if (order.queue.empty() && is_here && execute(session, table, request)) {
        return count_mapped(frame);
    }
    if (!may_wait(session, frame)) return;
    QueuedPush& push = order.queue.emplace_back(session.connection, frame);
    if (is_here) return;
    push.state = QueuedPush::State::kFetching;
    fetcher_.add(session.connection, frame);
}

/// Executes the push and answers it; or answers why it was not executed. False: its rows are
/// pinned.
bool Shard::execute(Session& session, ShardTable& table, const ShardRequest& request) {
    const wire::FrameHeader& h = request.header;
    PushOrder& order = session.order(h.table);
    const auto answer = [&](Errc status) {
        reply(request.connection, h.request, status);
        return true;
    };
    if (h.predecessor() != order.last) return answer(Errc::kAgain);
    if (judge_epoch(h.epoch) != OfEpoch::kServed) return answer(Errc::kStaleEpoch);
    if (order.clock == nullptr) order.clock = table.clocks.of(session.worker);
    const uint64_t time = order.whole_time(h.time);
    if (h.count > 0 && order.clock->at(table.positions.position(first_key_of(request))) >= time) {
        order.last = request.number;  // it was executed before
        return answer(Errc::kOk);
    }
    const TouchedList* known = nullptr;
    if ((h.flags & wire::kKeysKnown) != 0) {
        known =
            table.find_touched({h.first, h.count, request.ends.first_key, request.ends.last_key});
        if (known == nullptr) return answer(Errc::kUnknownList);
    }
    if (table.pins.stop(h)) {
        table.pins.hold_push();
        return false;
    }
    ++counters_.pushes;
    counters_.keys_pushed += h.count;
    const Errc status = change(table, request);
    if (status == Errc::kOk) {
        if (known != nullptr) {
            order.clock->raise(segments_, known->touched, time);
        } else {
            raise(table, *order.clock, request, time);
        }
        order.last = request.number;
    }
    return answer(status);
}

/// Sets the time of every segment in which the push has a key.
void Shard::raise(ShardTable& table, RangeClock& clock, const ShardRequest& request,
                  uint64_t time) {
    const wire::FrameHeader& h = request.header;
    if (h.count == 0) return;
    const PositionMap& positions = table.positions;
    if ((h.flags & wire::kKeysRange) != 0) {
        return clock.raise(segments_,
                           segments_.run_of({positions.position(h.first),
                                             positions.position(h.first + h.count - 1)}),
                           time);
    }
    const std::span keys(reinterpret_cast<const uint64_t*>(request.keys.data()), h.count);
    if (keys.size() == 1) {
        const uint64_t position = positions.position(keys[0]);
        return clock.raise(segments_, segments_.run_of({position, position}), time);
    }
    marks_.reset(segments_);
    for (const uint64_t key : keys)
        marks_.mark(segments_.find(positions.position(key)));
    const TouchedSegments& touched = marks_.touched();
    clock.raise(segments_, touched, time);
    if (keys.size() < kRememberedKeysMin) return;
    if (table.touched.size() >= kTouchedListsMax) table.touched.clear();
    const ListId id = list_id(keys);
    table.touched.insert_or_assign(id.hash, TouchedList{id, touched});
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
                ShardRequest request{session.connection, frame.header, frame.keys, frame.values,
                                     frame.values_at,    frame.ends,   nullptr,    {},
                                     frame.number};
                if (!find_bytes(frame, request)) {  // it was mapped when it came
                    head.state = QueuedPush::State::kFetching;
                    return fetcher_.add(session.connection, frame);
                }
                is_over = execute(session, table, request);
                if (is_over) count_mapped(frame);
                break;
            }
            case QueuedPush::State::kFetched:
                is_over = execute(session, table, head.request);
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
    std::list<QueuedPush>& queue = session.order(fetched.header.table).queue;
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
    if (is_first && fetched.status == Errc::kOk && execute(session, table, request)) {
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
    for (const PartInFetch& part : session.parts_in_fetch)
        tables_[part.table]->iterations.state().withdraw(part.iteration, session.worker);
    session.parts_in_fetch.clear();
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
/// \file
/// The order of pushes, which makes each of them take effect exactly once. A push names the one
/// before it on its connection, and is not executed unless that one was. Its time says whether it
/// was executed before, on a connection that broke before the reply came.

#include <algorithm>
#include <optional>
#include <utility>

#include "lib/key/key_list.h"
#include "lib/server/shard.h"

namespace weir {

namespace {

/// The segments that have keys of a range, the first of which lies in segment `first`.
SegmentRun segments_of(const SegmentList& held, const PositionMap& positions, KeyRange keys,
                       uint32_t first) noexcept {
    const PositionRange segment = held.segments()[first];
    if (keys.end <= positions.end_key_at(segment.last)) return {first, first + 1};
    return held.run_of({segment.first, positions.position(keys.end - 1)});
}

Errc push_entries(ShardTable& table, const Entries& entries, const Request& request,
                  const RuleArguments* arguments) {
    const uint32_t stamp = std::max<uint32_t>(request.stamp, 1);
    if (request.erases()) [[unlikely]]
        return table.rows->erase(entries, request.stamp != 0 ? std::optional(stamp) : std::nullopt)
            .code();
    if (request.has_whole_rows()) [[unlikely]]
        return table.rows->push_rows(entries, request.values, stamp).code();
    return table.rows->push(entries, request.values, arguments, stamp).code();
}

}  // namespace

void Shard::admit_push(Session& session, ShardTable& table, Request& request) {
    PushOrder& order = session.order(request.header.table);
    const bool is_here = find_bytes(request);
    if (order.queue.empty() && is_here && execute(session, table, order, request))
        return count_mapped(request);
    KeptRequest* const kept = keep(session, request, is_here ? Wait::kTurn : Wait::kBytes);
    if (kept == nullptr) return;
    order.queue.push_back(kept->slot);
    if (!is_here) fetcher_.add(*kept);
}

/// Executes the push and replies to it; or replies why it was not executed. False: its rows are
/// pinned, or streams have no room for what it changes.
bool Shard::execute(const Session& session, ShardTable& table, PushOrder& order,
                    const Request& request) {
    const wire::FrameHeader& h = request.header;
    const auto reply = [&](Errc status) {
        if (status == Errc::kOk && (h.encoding & wire::kWantsValues) != 0) [[unlikely]]
            pull_pushed(request);
        else
            replies_.reply_when_replicated(request.connection, h.request, status);
        return true;
    };
    if (judge_epoch(h.epoch) != OfEpoch::kServed) return reply(Errc::kStaleEpoch);
    if (h.predecessor() != order.last) return reply(Errc::kAgain);
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
        return reply(Errc::kOk);
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
        if (moving != Errc::kOk) return reply(moving);
    }
    std::optional<RuleArguments> arguments;  // looked at before rows are made
    if (!request.arguments.empty()) {
        const Result<RuleArguments> given = arguments_of(table, request);
        if (!given) return reply(given.code());
        arguments = *given;
    }
    const size_t row_count = table.rows->row_count();
    Touched touched;
    const Result<Entries> entries = resolve_push(table, request, first, touched);
    Errc status = entries.code();
    if (status == Errc::kOk)
        status = push_entries(table, *entries, request, arguments ? &*arguments : nullptr);
    if (status == Errc::kOk) {
        touched.raise(*order.clock, holdings_.segments(), time);
        order.last = request.number;
        if (is_moving_) [[unlikely]]
            streams_.pushed(table, *entries, session.worker, *order.clock);
        if (request.erases()) [[unlikely]]
            table.erased_in = streams_.last_change();
    } else {
        record_made_rows(table, request, row_count);
    }
    if (status != Errc::kUnknownList) {
        ++counters_.pushes;
        counters_.keys_pushed += h.count;
    }
    return reply(status);
}

/// A push that wants values was executed, now or before. What is left of it is a pull, which shows it, and
/// says that it was executed whatever becomes of the values.
void Shard::pull_pushed(const Request& push) {
    Request pull = pull_of(push);
    if (Session* const session = sessions_.find(push.connection)) start(*session, pull);
}

/// The segment that has the push's first key; kNone if this shard does not have that one.
uint32_t Shard::first_segment(const ShardTable& table, const Request& request) const noexcept {
    return holdings_.segments().find(table.positions.position(first_key_of(request)));
}

/// Finds what a push changes, and the segments in which it has a key. `first`: that of its first key.
/// A list that comes by its hash is not known if streams need its keys and do not have them.
Result<Entries> Shard::resolve_push(ShardTable& table, const Request& request, uint32_t first,
                                    Touched& touched) {
    const SegmentList& held = holdings_.segments();
    const bool has_one_key = request.header.count == 1;
    Result<Entries> entries = resolve(table, request, has_one_key ? nullptr : &held);
    if (!entries) return entries;
    const RowList& list = entries->list;
    if (request.has(wire::kKeysKnown) && replication_.needs_keys(*list.remembered))
        return KnownLists::unknown(list.id);
    touched.list = list.segments;
    if (touched.list != nullptr || first == SegmentList::kNone) return entries;
    touched.run = entries->is_range ? segments_of(held, table.positions, entries->range, first)
                                    : SegmentRun{first, first + 1};
    return entries;
}

/// Executes what can be executed now, in order.
void Shard::run_queue(Session& session, ShardTable& table) {
    PushOrder& order = session.order(table.rows->schema().id);
    while (!order.queue.empty()) {
        KeptRequest& head = requests_[order.queue.front()];
        if (head.wait != Wait::kTurn) return;
        if (head.status != Errc::kOk) {
            replies_.reply(session.connection, head.header.request, head.status);
        } else if (!find_bytes(head)) {  // it was mapped when it came
            head.wait = Wait::kBytes;
            return fetcher_.add(head);
        } else if (!execute(session, table, order, head)) {
            return;
        } else {
            count_mapped(head);
        }
        order.queue.pop_front();
        end(head);
    }
}

/// The keys and values of a push are here, or could not be read.
void Shard::fetched_push(Session& session, ShardTable& table, KeptRequest& push) {
    const RequestQueue& queue = session.order(push.header.table).queue;
    if (std::ranges::find(queue, push.slot) == queue.end()) return;
    const bool is_closing = push.status == Errc::kPeerLost || push.status == Errc::kCancelled;
    push.wait = is_closing ? Wait::kClose : Wait::kTurn;
    if (queue.front() == push.slot) run_queue(session, table);
}

/// A connection is closed: drops what waits from it. The worker sends it again on another one. What is being
/// read ends when that does.
void Shard::forget_pushes(Session& session) {
    for (auto& [table, order] : session.orders) {
        for (const uint32_t slot : std::exchange(order.queue, {})) {
            if (requests_[slot].wait != Wait::kBytes) end(requests_[slot]);
        }
    }
}

}  // namespace weir

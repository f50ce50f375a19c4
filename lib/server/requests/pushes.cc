// SPDX-License-Identifier: Apache-2.0
#include "lib/server/requests/pushes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lib/key/key_list.h"

namespace weir {

namespace {

/// The segments that have keys of a range, the first of which lies in segment `first`.
SegmentRun segments_of(const SegmentList& held, const PositionMap& positions, KeyRange keys,
                       uint32_t first) noexcept {
    const PositionRange segment = held.segments()[first];
    if (keys.end <= positions.end_key_at(segment.last)) return {first, first + 1};
    return held.run_of({segment.first, positions.position(keys.end - 1)});
}

/// `call`: of a function, in place of values.
Errc push_entries(ShardTable& table, const Entries& entries, const Request& request,
                  const RuleArguments* arguments, const FunctionCall* call) {
    const uint32_t stamp = std::max<uint32_t>(request.stamp, 1);
    if (call != nullptr) [[unlikely]]
        return table.rows->change(entries, *call, stamp).code();
    if (request.erases()) [[unlikely]]
        return table.rows
            ->erase(entries, request.stamp != 0 ? std::optional(stamp) : std::nullopt,
                    request.below())
            .code();
    if (request.has_whole_rows()) [[unlikely]]
        return table.rows->push_rows(entries, request.values, stamp).code();
    return table.rows->push(entries, request.values, arguments, stamp).code();
}

}  // namespace

void Pushes::accept(Session& session, ShardTable& table, Request& push) {
    PushOrder& order = session.order(push.header.table);
    const bool is_here = waiting_.find_bytes(push);
    if (order.queue.empty() && is_here && execute(session, table, order, push))
        return waiting_.count_mapped(push);
    KeptRequest* const kept = waiting_.keep(session, push, is_here ? Wait::kTurn : Wait::kBytes);
    if (kept == nullptr) return;
    order.queue.push_back(kept->slot);
    if (!is_here) waiting_.fetcher().add(*kept);
}

/// Executes the push and replies to it; or replies why it was not executed. False: its rows are
/// pinned, streams have no room for what it changes, or this poll has no time for the call.
bool Pushes::execute(const Session& session, ShardTable& table, PushOrder& order,
                     const Request& sent) {
    const wire::FrameHeader& h = sent.header;
    const auto reply = [&](Errc status) {
        if (status == Errc::kOk && (h.encoding & wire::kWantsValues) != 0) [[unlikely]]
            pull_pushed(table, sent);
        else
            replies_.reply_when_replicated(sent.connection, h.request, status);
        return true;
    };
    if (standing_.judge(h.epoch) != ShardStanding::OfEpoch::kServed)
        return reply(Errc::kStaleEpoch);
    if (h.predecessor() != order.last) return reply(Errc::kAgain);
    if (order.clock == nullptr) {
        order.clock = table.clocks.of(session.worker);
        table.was_pushed = true;
    }
    const uint64_t time = order.whole_time(h.time);
    const SegmentList& held = replication_.segments();
    const uint32_t first = first_segment(table, sent);
    const bool was_executed =
        first != SegmentList::kNone && order.clock->of_segment(held, first) >= time;
    if (was_executed) {
        order.last = sent.number;
        return reply(Errc::kOk);
    }
    if (table.pins.stop(h)) {
        table.pins.hold_push();
        return false;
    }
    if (sent.calls() && !functions_.take_turn()) [[unlikely]] {
        table.pins.hold_push();
        waiting_.retry();
        return false;
    }
    if (standing_.is_moving()) [[unlikely]] {
        const Errc moving = judge_or_hold(table, sent);
        if (moving == Errc::kBusy) return false;
        if (moving != Errc::kOk) return reply(moving);
    }
    const Request* const expanded = waiting_.expand(table, sent);
    if (expanded == nullptr) [[unlikely]]
        return reply(Errc::kProtocol);
    const Request& request = *expanded;
    std::optional<RuleArguments> arguments;  // looked at before rows are made
    std::optional<FunctionCall> call;
    if (request.calls()) [[unlikely]] {
        Result<FunctionCall> made = functions_.make(table, request);
        if (!made) return reply(made.code());
        call = *std::move(made);
    } else if (!request.arguments.empty() && !request.erases()) {
        const Result<RuleArguments> given = arguments_of(table, request);
        if (!given) return reply(given.code());
        arguments = *given;
    }
    const size_t row_count = table.rows->row_count();
    Touched touched;
    const Result<Entries> entries = resolve_push(table, request, first, touched);
    Errc status = entries.code();
    if (status == Errc::kOk && !request.kept.empty()) [[unlikely]]
        record_made_rows(table, request, row_count);  // also those that do not change
    if (status == Errc::kOk)
        status = push_entries(table, *entries, request, arguments ? &*arguments : nullptr,
                              call ? &*call : nullptr);
    if (status == Errc::kOk) {
        if (sent.is_encoded()) [[unlikely]]
            waiting_.count_expanded(table, sent);
        touched.raise(*order.clock, held, time);
        order.last = request.number;
        if (standing_.is_moving()) [[unlikely]]
            replication_.changed(table, *entries, session.worker, *order.clock);
        if (request.erases()) [[unlikely]]
            table.erased_in = replication_.last_change();
    } else {
        record_made_rows(table, request, row_count);
    }
    if (status != Errc::kUnknownList) {
        ++counters_.pushes;
        counters_.keys_pushed += h.count;
    }
    return reply(status);
}

/// As judge(), also of erasures that wait for others. If it must wait, it is held.
Errc Pushes::judge_or_hold(ShardTable& table, const Request& request) {
    if (request.erases() && table.holds_erasures()) {
        table.pins.hold_push();
        table.has_held_erasures = true;
        return Errc::kBusy;
    }
    const Errc moving = judge(table, request);
    if (moving == Errc::kBusy) {
        table.pins.hold_push();
        waits_for_room_ = true;
    }
    return moving;
}

/// Whether a push can be executed now: kOk, or kBusy if it must wait until streams have room, or
/// how it is replied to.
Errc Pushes::judge(const ShardTable& table, const Request& request) const {
    if (!serves(table, request)) return Errc::kOutOfRange;
    return checkpoint_.is_frozen() || !replication_.has_room() ? Errc::kBusy : Errc::kOk;
}

/// A push that wants values was executed, now or before. What is left of it is a pull, which shows it, and
/// says that it was executed whatever becomes of the values.
void Pushes::pull_pushed(ShardTable& table, const Request& push) {
    Request pull = pull_of(push);
    if (Session* const session = sessions_.find(push.connection))
        reads_.start(*session, table, pull);
}

/// The segment that has the push's first key; kNone if this shard does not have that one.
uint32_t Pushes::first_segment(const ShardTable& table, const Request& request) const noexcept {
    return replication_.segments().find(table.positions.position(first_key_of(request)));
}

/// Finds what a push changes, and the segments in which it has a key. `first`: that of its first key.
/// A list that comes by its hash is not known if streams need its keys and do not have them.
Result<Entries> Pushes::resolve_push(ShardTable& table, const Request& request, uint32_t first,
                                     Touched& touched) {
    const SegmentList& held = replication_.segments();
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

void Pushes::run_queue(Session& session, ShardTable& table) {
    PushOrder& order = session.order(table.rows->schema().id);
    while (!order.queue.empty()) {
        KeptRequest& head = waiting_.requests()[order.queue.front()];
        if (head.wait != Wait::kTurn) return;
        if (head.status != Errc::kOk) {
            replies_.reply(session.connection, head.header.request, head.status);
        } else if (!waiting_.find_bytes(head)) {  // it was mapped when it came
            head.wait = Wait::kBytes;
            return waiting_.fetcher().add(head);
        } else if (!execute(session, table, order, head)) {
            return;
        } else {
            waiting_.count_mapped(head);
        }
        order.queue.pop_front();
        waiting_.end(head);
    }
}

void Pushes::fetched(Session& session, ShardTable& table, KeptRequest& push) {
    const RequestQueue& queue = session.order(push.header.table).queue;
    if (std::ranges::find(queue, push.slot) == queue.end()) return;
    const bool is_closing = push.status == Errc::kPeerLost || push.status == Errc::kCancelled;
    push.wait = is_closing ? Wait::kClose : Wait::kTurn;
    if (queue.front() == push.slot) run_queue(session, table);
}

void Pushes::run_queues(ShardTable& table) {
    sessions_.for_each([&](Session& session) { run_queue(session, table); });
}

void Pushes::look_for_room() {
    if (!waits_for_room_ || !replication_.has_room() || checkpoint_.is_frozen()) return;
    waits_for_room_ = false;
    waiting_.retry();
}

void Pushes::look_for_erasures(ShardTable& table) {
    if (!table.has_held_erasures || table.holds_erasures()) return;
    table.has_held_erasures = false;
    waiting_.retry();
}

void Pushes::forget(Session& session) {
    KeptRequests& requests = waiting_.requests();
    for (auto& [table, order] : session.orders) {
        for (const uint32_t slot : std::exchange(order.queue, {})) {
            if (requests[slot].wait != Wait::kBytes) waiting_.end(requests[slot]);
        }
    }
}

void Pushes::drop(ShardTable& table) {
    sessions_.for_each([&](Session& session) { drop(session, table); });
}

void Pushes::drop(Session& session, const ShardTable& table) {
    PushOrder& order = session.order(table.rows->schema().id);
    order.clock = nullptr;
    for (const uint32_t slot : std::exchange(order.queue, {})) {
        KeptRequest& push = waiting_.requests()[slot];
        // It is replied to when its bytes have come: until then its worker must keep them.
        if (push.wait == Wait::kBytes) continue;
        if (push.wait == Wait::kTurn)
            replies_.reply(session.connection, push.header.request, Errc::kNotFound);
        waiting_.end(push);
    }
}

}  // namespace weir

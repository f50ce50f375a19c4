// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a push does: it changes the table at once, or is part of an iteration, whose rule runs
/// when the parts of all workers have arrived.

#include "lib/server/shard.h"

namespace weir {

using wire::Kind;

void Shard::apply(const Request& request) {
    TableState& state = *tables_[request.header.table];
    if (request.header.kind == Kind::kPull) {
        ++counters_.pulls;
        return pull(state, request);
    }
    ++counters_.pushes;
    counters_.keys_pushed += request.header.count;
    push(state, request);
}

void Shard::push(TableState& state, const Request& request) {
    const wire::FrameHeader& h = request.header;
    if ((h.flags & wire::kAggregate) != 0) return push_part(state, request);
    if (!state.pins.empty() && pinned(state, h)) {  // while it was fetched
        Session* const session = session_of(request.connection);
        if (session == nullptr) return;
        session->waiting_bytes += kWaitingBytes;
        state.held.push_back({request, fetcher_.keep()});
        return;
    }
    reply(request.connection, h.request, change(state, request, false));
}

Result<RowList> Shard::rows_of(TableState& state, const Request& request) {
    const wire::FrameHeader& h = request.header;
    if ((h.flags & wire::kKeysKnown) != 0) {
        return state.table->known_rows(
            {h.first, h.count, request.ends.first_key, request.ends.last_key});
    }
    const std::span keys(reinterpret_cast<const uint64_t*>(request.keys.data()), h.count);
    return h.kind == Kind::kPush ? state.table->rows_for_push(keys)
                                 : state.table->rows_for_pull(keys);
}

Errc Shard::change(TableState& state, const Request& request, bool aggregate) {
    const wire::FrameHeader& h = request.header;
    TableShard& table = *state.table;
    if ((h.flags & wire::kKeysRange) != 0) {
        const KeyRange keys{h.first, h.first + h.count};
        return (aggregate ? table.push_aggregate(keys, request.values)
                          : table.push(keys, request.values))
            .code();
    }
    const Result<RowList> rows = rows_of(state, request);
    if (!rows) return rows.code();
    return (aggregate ? table.push_aggregate(*rows, request.values)
                      : table.push(*rows, request.values))
        .code();
}

void Shard::push_part(TableState& state, const Request& request) {
    const Session* const session = session_of(request.connection);
    if (session == nullptr) return;
    const wire::FrameHeader& h = request.header;
    Errc status = Errc::kOk;
    if (h.count > 0 && !state.iterations.failure_of(state.iterations.open())) {
        // A part that is the whole iteration needs no sum. One of several parts does, even of a
        // single worker: if another part fails, nothing of the iteration may be applied.
        const bool whole = state.alone && h.parts == 1 && state.pins.empty();
        status = change(state, request, !whole);
        state.aggregated |= !whole;
    }
    end_part(state, *session, h.request, status);
}

/// An admitted part of the open iteration has had its effect, or has failed. If its key list is
/// not known, the part does not count: the worker sends it again with its keys.
void Shard::end_part(TableState& state, const Session& session, uint64_t request, Errc status) {
    Iterations& iterations = state.iterations;
    if (status == Errc::kUnknownList) {
        iterations.withdraw(session.worker);
        return reply(session.connection, request, status);
    }
    if (status != Errc::kOk) iterations.fail({status, session.worker});
    if (const auto failure = iterations.failure_for(iterations.open(), session.worker)) {
        reply_failed(session.connection, request, *failure);
    } else {
        state.to_acknowledge.push_back({session.connection, request});
    }
    answer_failed(state);
    if (iterations.arrived(session.worker)) finish_iteration(state);
}

/// If the open iteration has failed: drops its sum, answers the parts that have arrived, and has
/// the deferred requests looked at again.
void Shard::answer_failed(TableState& state) {
    const auto failure = state.iterations.failure_of(state.iterations.open());
    if (!failure) return;
    if (std::exchange(state.aggregated, false)) state.table->drop_aggregate();
    for (const Acknowledgement& waiting : std::exchange(state.to_acknowledge, {}))
        reply_failed(waiting.connection, waiting.request, *failure);
    retry_ |= !state.deferred.empty();
}

void Shard::finish_iteration(TableState& state) {
    const bool failed = state.iterations.failure_of(state.iterations.open()).has_value();
    state.apply_waiting = !failed && !state.pins.empty();
    if (state.apply_waiting) return;
    if (std::exchange(state.aggregated, false)) state.table->apply_aggregate();
    state.iterations.close();
    for (const Acknowledgement& done : state.to_acknowledge)
        reply(done.connection, done.request, Errc::kOk);
    state.to_acknowledge.clear();
    retry_ |= !state.deferred.empty();
}

/// True if pushes or a complete iteration wait until no row is pinned. New pins must then wait,
/// or pulls that never pause would keep rows pinned for ever.
bool Shard::waits_for_pins(const TableState& state) {
    return state.apply_waiting || !state.held.empty() || !state.behind_pins.empty();
}

bool Shard::pinned(const TableState& state, const wire::FrameHeader& header) {
    for (const Pin& pin : state.pins) {
        const bool apart = (header.flags & wire::kKeysRange) != 0 &&
                           intersect(pin.keys, {header.first, header.first + header.count}).empty();
        if (!apart) return true;
    }
    return false;
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a push does: changes the table at once, or becomes part of an iteration whose rule runs
/// when all workers' parts are in.

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
    if ((h.flags & wire::kAggregate) != 0) {
        // One worker's pushes need not wait for anybody's: the rule runs on them as they come.
        const bool aggregate = worker_count_ > 1 || !state.pins.empty();
        const Errc status = h.count == 0 ? Errc::kOk : change(state, request, aggregate);
        state.aggregated |= aggregate && h.count > 0;
        return aggregate_part(state, request, status);
    }
    if (!state.pins.empty() && pinned(state, h)) {  // since it was fetched
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

void Shard::aggregate_part(TableState& state, const Request& request, Errc status) {
    const Session* const session = session_of(request.connection);
    if (session == nullptr) return;
    if (status == Errc::kUnknownList) {  // it comes again, with its keys
        state.iterations.withdraw(session->worker);
        return reply(request.connection, request.header.request, status);
    }
    const uint32_t lost = lost_before(state, *session, request.header.iteration);
    if (status != Errc::kOk) {
        reply(request.connection, request.header.request, status);
    } else if (lost < worker_count_) {  // while this part was fetched
        reply(request.connection, request.header.request, Errc::kPeerLost, lost);
    } else {
        state.to_acknowledge.push_back({request.connection, request.header.request});
    }
    if (state.iterations.arrived(session->worker)) finish_iteration(state);
}

void Shard::finish_iteration(TableState& state) {
    state.apply_waiting = !state.pins.empty();
    if (state.apply_waiting) return;
    if (std::exchange(state.aggregated, false)) state.table->apply_aggregate();
    state.iterations.applied();
    for (const Acknowledgement& done : state.to_acknowledge) {
        reply(done.connection, done.request, Errc::kOk);
    }
    state.to_acknowledge.clear();
    retry_ |= !state.deferred.empty();
}

/// New pins must then wait too, or readers that never pause would keep the rows pinned for ever.
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

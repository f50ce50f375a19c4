// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a push does: it changes the table at once; or it is part of an iteration, and is added to
/// that iteration's sum (shard_parts.cc goes on).

#include "lib/server/shard.h"

namespace weir {

using wire::Kind;

void Shard::apply(const ShardRequest& request) {
    ShardTable& table = *tables_[request.header.table];
    if (request.header.kind == Kind::kPull) {
        ++counters_.pulls;
        return pull(table, request);
    }
    ++counters_.pushes;
    counters_.keys_pushed += request.header.count;
    push(table, request);
}

void Shard::push(ShardTable& table, const ShardRequest& request) {
    const wire::FrameHeader& h = request.header;
    if ((h.flags & wire::kAggregate) != 0) return push_part(table, request);
    if (table.pins.stop(h)) {  // pinned while it was fetched
        Session* const session = sessions_.find(request.connection);
        if (session == nullptr) return;
        Sessions::add_waiting_again(*session);
        return table.pins.hold(request, fetcher_.keep());
    }
    reply(request.connection, h.request, change(table, request, false));
}

void Shard::push_part(ShardTable& table, const ShardRequest& request) {
    const Session* const session = sessions_.find(request.connection);
    if (session == nullptr) return;
    const wire::FrameHeader& h = request.header;
    Errc status = Errc::kOk;
    if (h.count > 0 && !table.iterations.failure_of(table.iterations.open())) {
        // A part that is the whole iteration needs no sum. One of several parts does, even of a
        // single worker: if another part fails, nothing of the iteration may be applied.
        const bool whole = table.one_worker && h.parts == 1 && !table.pins.any();
        status = change(table, request, !whole);
        table.aggregated |= !whole;
    }
    end_part(table, *session, h.request, status);
}

Errc Shard::change(ShardTable& table, const ShardRequest& request, bool aggregate) {
    const wire::FrameHeader& h = request.header;
    TableShard& rows = *table.rows;
    if ((h.flags & wire::kKeysRange) != 0) {
        const KeyRange keys{h.first, h.first + h.count};
        return (aggregate ? rows.push_aggregate(keys, request.values)
                          : rows.push(keys, request.values))
            .code();
    }
    const Result<RowList> list = rows_of(table, request);
    if (!list) return list.code();
    return (aggregate ? rows.push_aggregate(*list, request.values)
                      : rows.push(*list, request.values))
        .code();
}

Result<RowList> Shard::rows_of(ShardTable& table, const ShardRequest& request) {
    const wire::FrameHeader& h = request.header;
    if ((h.flags & wire::kKeysKnown) != 0) {
        return table.rows->known_rows(
            {h.first, h.count, request.ends.first_key, request.ends.last_key});
    }
    const std::span keys(reinterpret_cast<const uint64_t*>(request.keys.data()), h.count);
    return h.kind == Kind::kPush ? table.rows->rows_for_push(keys)
                                 : table.rows->rows_for_pull(keys);
}

}  // namespace weir

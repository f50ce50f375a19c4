// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a push does: it changes the table; or it is part of an iteration, and is added to that
/// iteration's sum (shard_parts.cc goes on).

#include "lib/server/shard.h"

namespace weir {

using wire::Kind;

Errc change(ShardTable& table, const ShardRequest& request) {
    const wire::FrameHeader& h = request.header;
    if ((h.flags & wire::kKeysRange) != 0)
        return table.rows->push(KeyRange{h.first, h.first + h.count}, request.values).code();
    const Result<RowList> list = rows_of(table, request);
    return list ? table.rows->push(*list, request.values).code() : list.code();
}

namespace {

Errc add_to_sum(ShardTable& table, const ShardRequest& request) {
    const wire::FrameHeader& h = request.header;
    table.iterations.added(h.iteration);
    if ((h.flags & wire::kKeysRange) != 0) {
        const KeyRange keys{h.first, h.first + h.count};
        return table.rows->push_aggregate(h.iteration, keys, request.values).code();
    }
    const Result<RowList> list = rows_of(table, request);
    return list ? table.rows->push_aggregate(h.iteration, *list, request.values).code()
                : list.code();
}

}  // namespace

void Shard::apply(const ShardRequest& request) {
    ShardTable& table = *tables_[request.header.table];
    if (request.header.kind == Kind::kPull) {
        ++counters_.pulls;
        return pull(table, request);
    }
    ++counters_.pushes;
    counters_.keys_pushed += request.header.count;
    push_part(table, request);
}

void Shard::push_part(ShardTable& table, const ShardRequest& request) {
    const Session* const session = sessions_.find(request.connection);
    if (session == nullptr) return;
    const wire::FrameHeader& h = request.header;
    Errc status = Errc::kOk;
    if (h.count > 0 && !table.iterations.state().failure_of(h.iteration)) {
        const bool is_all = table.iterations.is_all(h.iteration, h.parts) && !table.pins.any();
        status = is_all ? change(table, request) : add_to_sum(table, request);
    }
    end_part(table, *session, h, status);
}

Result<RowList> rows_of(ShardTable& table, const ShardRequest& request) {
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

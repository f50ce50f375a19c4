// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a shard tells of itself.

#include <algorithm>
#include <utility>

#include "lib/server/shard.h"

namespace weir {

using wire::Kind;

/// With the counters. It says nothing of the tables, so it needs no lease.
void Shard::give_sign_of_life(ConnectionId connection, uint64_t request) {
    wire::FrameHeader header = wire::header_of(Kind::kReply);
    header.request = request;
    replies_.send_at_once(connection, header, stats());
}

/// The body of the reply to kStats.
std::vector<std::byte> Shard::stats() {
    StatsMessage message = counters_;
    message.bytes_sent += endpoint_->counters().bytes_sent;
    message.bytes_received += endpoint_->counters().bytes_received;
    message.bytes_copied += endpoint_->counters().bytes_staged;
    const MemoryUse use = memory_.use();
    message.registered_bytes = use.registered_bytes;
    message.used_bytes = use.used_bytes;
    const size_t cached_bytes = lists_.bytes() + waiting_.fetcher().spares().bytes();
    message.table_bytes = use.used_bytes - std::min<uint64_t>(cached_bytes, use.used_bytes);
    message.lists_remembered = lists_.list_count();
    for (ShardTable* const table : tables_)
        message.keys_held += table->rows->written_count();
    note_open_iterations(message);
    return message.encode();
}

/// The open iterations that have begun, as many as the message has room for: the first one of each
/// table, then the second ones, and so on.
void Shard::note_open_iterations(StatsMessage& message) const {
    size_t room_bytes = endpoint_->capabilities().message_bytes_max - wire::kHeaderBytesMin -
                        message.encode().size();
    bool has_more = true;
    for (uint64_t ahead = 0; has_more; ++ahead) {
        has_more = false;
        for (ShardTable* const table : tables_) {
            const IterationProgress& iterations = table->iterations.state();
            const uint64_t iteration = iterations.first_open() + ahead;
            if (iteration > std::min(iterations.last_begun(), iterations.last_open())) continue;
            StatsMessage::OpenIteration open{table->rows->schema().id, iteration, 0, {}};
            for (const ViewWorker& worker : standing_.view().workers()) {
                if (iterations.waits_for(iteration, worker.number)) open.add_late(worker.number);
            }
            if (message.open.size() == StatsMessage::kOpenMax || open.bytes() > room_bytes) return;
            room_bytes -= open.bytes();
            message.open.push_back(std::move(open));
            has_more = true;
        }
    }
}

}  // namespace weir

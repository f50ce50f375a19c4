// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a shard answers.

#include "lib/server/shard.h"

namespace weir {

using wire::Kind;

void Shard::reply(ConnectionId connection, uint64_t request, Errc status, uint64_t detail,
                  std::span<const std::byte> body) {
    wire::FrameHeader header = wire::header_of(Kind::kReply);
    header.request = request;
    header.status = status;
    header.first = detail;
    outbox_.send(connection, header, body);
}

/// Answers a part of, or a pull that names, an iteration that has failed at this shard.
void Shard::reply_failed(ConnectionId connection, uint64_t request,
                         const IterationProgress::Failure& failure) {
    wire::FrameHeader header = wire::header_of(Kind::kReply);
    header.flags = wire::kIteration;
    header.request = request;
    header.status = failure.status;
    header.first = failure.worker;
    outbox_.send(connection, header);
}

void Shard::stats(ConnectionId connection, uint64_t request) {
    StatsMessage message = counters_;
    message.bytes_sent += endpoint_->counters().bytes_sent;
    message.bytes_received += endpoint_->counters().bytes_received;
    message.bytes_copied += endpoint_->counters().bytes_staged;
    const MemoryUse use = memory_.use();
    message.registered_bytes = use.registered_bytes;
    message.used_bytes = use.used_bytes;
    message.lists_remembered = lists_.list_count();
    for (const auto& table : tables_) {
        if (table != nullptr) message.keys_held += table->rows->row_count();
    }
    reply(connection, request, Errc::kOk, 0, message.encode());
}

}  // namespace weir

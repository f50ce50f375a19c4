// SPDX-License-Identifier: Apache-2.0
/// \file
/// Where the keys and values of an admitted push or pull are: in its message, in memory that is
/// mapped, or in memory that the Fetcher has to read first.

#include <cstring>

#include "lib/server/shard.h"

namespace weir {

using wire::Kind;

void Shard::start(Session& session, const wire::Frame& frame) {
    ShardRequest request = request_of(session.connection, frame);
    if (find_bytes(frame, request)) {
        count_mapped(frame);
        return apply(request);
    }
    if (!sessions_.add_waiting(session, frame.keys.size() + frame.values.size()))
        return reply(session.connection, frame.header.request, Errc::kBusy);
    counters_.bytes_copied += frame.keys.size() + frame.values.size();
    fetcher_.add(session.connection, frame);
}

/// Copies are told of the keys by which the rows of a push were found. Its sender may change them at any
/// time where they lie: so they are read once, and all that is done with them goes by what was read.
void Shard::keep_keys(ShardRequest& request) {
    if (request.header.kind != Kind::kPush || request.keys.empty() || streams_.empty()) return;
    kept_keys_.resize(request.keys.size() / sizeof(uint64_t));
    std::memcpy(kept_keys_.data(), request.keys.data(), request.keys.size());
    request.keys = std::as_bytes(std::span(kept_keys_));
}

/// Maps the keys and values that lie in the worker's memory. False: they cannot be mapped, so
/// that the Fetcher must read them, or provide a buffer for pulled values: those of a list, or of a
/// range that does not lie side by side.
bool Shard::map_bytes(const wire::Frame& frame, ShardRequest& request) {
    const wire::FrameHeader& h = frame.header;
    const size_t value_bytes = size_of(static_cast<ValueType>(h.value_type));
    if ((h.flags & wire::kKeysRemote) != 0 && frame.keys_at.length_bytes > 0) {
        const std::byte* const keys = map(request.connection, frame.keys_at, sizeof(uint64_t),
                                          transport::Access::kRemoteRead);
        if (keys == nullptr) return false;
        request.keys = {keys, frame.keys_at.length_bytes};
    }
    if ((h.flags & wire::kValuesRemote) == 0 || frame.values_at.length_bytes == 0) return true;
    if (h.kind == Kind::kPush) {
        const std::byte* const values =
            map(request.connection, frame.values_at, value_bytes, transport::Access::kRemoteRead);
        request.values = {values, frame.values_at.length_bytes};
        return values != nullptr;
    }
    request.out =
        map(request.connection, frame.values_at, value_bytes, transport::Access::kRemoteWrite);
    if (request.out != nullptr) return true;
    const KeyRange keys{h.first, h.first + h.count};
    return (h.flags & wire::kKeysRange) != 0 && tables_[h.table]->rows->is_in_extent(keys);
}

std::byte* Shard::map(ConnectionId connection, const wire::MemoryHandle& at, size_t alignment,
                      transport::Access access) {
    std::byte* const memory =
        endpoint_->map(connection, {at.address, at.length_bytes, at.key}, access);
    return reinterpret_cast<uintptr_t>(memory) % alignment == 0 ? memory : nullptr;
}

/// Counts mapped bytes as the endpoint counts bytes that it reads and writes.
void Shard::count_mapped(const wire::Frame& frame) {
    counters_.bytes_received += frame.keys_at.length_bytes;
    (frame.header.kind == Kind::kPush ? counters_.bytes_received : counters_.bytes_sent) +=
        frame.values_at.length_bytes;
}

size_t Shard::take_fetched() {
    size_t done = fetcher_.start();
    while (const std::optional<Fetched> next = fetcher_.next()) {
        fetched(*next);
        fetcher_.done();
        ++done;
    }
    return done;
}

void Shard::fetched(const Fetched& fetched) {
    Session* const session = sessions_.find(fetched.connection);
    if (session == nullptr) return;
    Sessions::end_waiting(*session, fetched.carried_bytes);
    const bool is_part = (fetched.header.flags & wire::kAggregate) != 0;
    const bool is_push = fetched.header.kind == Kind::kPush && !is_part;
    const ShardTable* const table = tables_[fetched.header.table].get();
    if (table == nullptr || table->is_dropped)
        return reply(fetched.connection, fetched.header.request, Errc::kNotFound);
    if (is_push) return fetched_push(*session, fetched);
    // The connection is about to close; the worker sends the request again on another one.
    if (fetched.status == Errc::kPeerLost || fetched.status == Errc::kCancelled) return;
    if (!may_still_run(*session, fetched)) return;
    const ShardRequest request{fetched.connection, fetched.header, fetched.keys, fetched.values,
                               fetched.values_at,  fetched.ends,   nullptr,      fetched.room,
                               fetched.number};
    if (fetched.status == Errc::kOk) return apply(request);
    if (is_part) {
        return end_unused_part(*tables_[fetched.header.table], *session, fetched.header,
                               fetched.status);
    }
    reply(fetched.connection, fetched.header.request, fetched.status);
}

/// Much may have happened while the bytes of a pull or part were read. If it may not go on, it is
/// answered.
bool Shard::may_still_run(const Session& session, const Fetched& fetched) {
    const wire::FrameHeader& h = fetched.header;
    if (judge_epoch(h.epoch) != OfEpoch::kServed) {
        reply(fetched.connection, h.request, Errc::kStaleEpoch, view_.epoch());
        return false;
    }
    if (h.kind == Kind::kPull) return true;
    ShardTable& table = *tables_[h.table];
    const auto first = first_position(table, h, fetched.keys, fetched.ends);
    switch (judge_part(session, table, h, first)) {
        case IterationProgress::Verdict::kNow: return true;
        case IterationProgress::Verdict::kLater:
            reply(fetched.connection, h.request, Errc::kBusy);
            return false;
        default: return false;
    }
}

}  // namespace weir

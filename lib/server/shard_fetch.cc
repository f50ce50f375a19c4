// SPDX-License-Identifier: Apache-2.0
/// \file
/// Where the keys and values of an admitted push or pull are: in its message, in memory that is
/// mapped, or in memory that the Fetcher has to read first.

#include <cstring>

#include "lib/server/shard.h"

namespace weir {

using wire::Kind;

void Shard::start(Session& session, Request& request) {
    if (find_bytes(request)) {
        count_mapped(request);
        return apply(request);
    }
    if (KeptRequest* const kept = keep(session, request, Wait::kBytes)) fetcher_.add(*kept);
}

/// Backups are told of the keys by which the rows of a push were found. Its sender may change them at any
/// time where they lie: so they are read once, and all that is done with them goes by what was read.
void Shard::keep_keys(Request& request) {
    const bool is_here =
        request.is_kept() && (request.has_been_read || !request.has(wire::kKeysRemote));
    if (request.header.kind != Kind::kPush || is_here || request.keys.empty() || streams_.empty())
        return;
    kept_keys_.resize(request.keys.size() / sizeof(uint64_t));
    std::memcpy(kept_keys_.data(), request.keys.data(), request.keys.size());
    request.keys = std::as_bytes(std::span(kept_keys_));
}

/// Maps the keys and values that lie in the worker's memory. False: they cannot be mapped, so
/// that the Fetcher must read them, or provide a buffer for pulled values: those of a list, or of a
/// range that does not lie side by side.
bool Shard::map_bytes(Request& request) {
    const wire::FrameHeader& h = request.header;
    const RowLayout& layout = tables_[h.table]->rows->row_layout();
    const bool asks_written = (h.encoding & wire::kAsksWritten) != 0;
    const size_t value_bytes = asks_written            ? 1
                               : h.kind == Kind::kPush ? size_of(layout.pushed_type)
                                                       : size_of(layout.value_type);
    if ((h.flags & wire::kKeysRemote) != 0 && request.keys_at.length_bytes > 0) {
        const std::byte* const keys = map(request.connection, request.keys_at, sizeof(uint64_t),
                                          transport::Access::kRemoteRead);
        if (keys == nullptr) return false;
        request.keys = {keys, request.keys_at.length_bytes};
    }
    if ((h.flags & wire::kValuesRemote) == 0 || request.values_at.length_bytes == 0) return true;
    if (h.kind == Kind::kPush) {
        const std::byte* const values =
            map(request.connection, request.values_at, value_bytes, transport::Access::kRemoteRead);
        request.values = {values, request.values_at.length_bytes};
        return values != nullptr;
    }
    request.out =
        map(request.connection, request.values_at, value_bytes, transport::Access::kRemoteWrite);
    if (request.out != nullptr) return true;
    const KeyRange keys = range_of(request);
    return (h.flags & wire::kKeysRange) != 0 && !request.has_whole_rows() &&
           tables_[h.table]->rows->is_in_extent(keys);
}

std::byte* Shard::map(ConnectionId connection, const wire::MemoryHandle& at, size_t alignment,
                      transport::Access access) {
    std::byte* const memory =
        endpoint_->map(connection, {at.address, at.length_bytes, at.key}, access);
    return reinterpret_cast<uintptr_t>(memory) % alignment == 0 ? memory : nullptr;
}

/// Counts mapped bytes as the endpoint counts bytes that it reads and writes.
void Shard::count_mapped(const Request& request) {
    if (request.has_been_read) return;
    counters_.bytes_received += request.keys_at.length_bytes;
    (request.header.kind == Kind::kPush ? counters_.bytes_received : counters_.bytes_sent) +=
        request.values_at.length_bytes;
}

size_t Shard::run_fetched() {
    size_t done = fetcher_.start();
    while (KeptRequest* const next = fetcher_.next()) {
        next->wait = Wait::kNothing;
        if (Session* const session = sessions_.find(next->connection)) fetched(*session, *next);
        end_unless_waiting(*next);
        ++done;
    }
    return done;
}

void Shard::fetched(Session& session, KeptRequest& request) {
    const wire::FrameHeader& h = request.header;
    const bool is_part = request.has(wire::kAggregate);
    ShardTable* const table = tables_[h.table];
    if (table == nullptr || table->is_dropped) return refuse_request(request, Errc::kNotFound);
    if (h.kind == Kind::kPush && !is_part) return fetched_push(session, *table, request);
    // The connection is about to close; the worker sends the request again on another one.
    if (request.status == Errc::kPeerLost || request.status == Errc::kCancelled) return;
    if (!may_still_run(session, request)) return;
    if (request.status == Errc::kOk) return apply(request);
    if (is_part) return end_unused_part(*table, session, h, request.status);
    refuse_request(request, request.status);
}

/// Much may have happened while the bytes of a pull or part were read. If it may not go on, it is
/// replied to.
bool Shard::may_still_run(const Session& session, const Request& request) {
    const wire::FrameHeader& h = request.header;
    if (judge_epoch(h.epoch) != OfEpoch::kServed) {
        refuse_request(request, Errc::kStaleEpoch, view_.epoch());
        return false;
    }
    if (h.kind == Kind::kPull) return true;
    switch (judge_part(session, *tables_[h.table], request)) {
        case IterationProgress::Verdict::kNow: return true;
        case IterationProgress::Verdict::kLater:
            replies_.reply(request.connection, h.request, Errc::kBusy);
            return false;
        default: return false;
    }
}

}  // namespace weir

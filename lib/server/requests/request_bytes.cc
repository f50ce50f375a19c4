// SPDX-License-Identifier: Apache-2.0
/// \file
/// Where the keys and values of a push or pull are.

#include <cstring>

#include "lib/server/requests/waiting_requests.h"

namespace weir {

using wire::Kind;

bool WaitingRequests::find_or_fetch(Session& session, Request& request) {
    if (find_bytes(request)) {
        count_mapped(request);
        return true;
    }
    if (KeptRequest* const kept = keep(session, request, Wait::kBytes)) fetcher_.add(*kept);
    return false;
}

/// Backups are told of the keys by which the rows of a push were found. Its sender may change them at any
/// time where they lie: so they are read once, and all that is done with them goes by what was read.
void WaitingRequests::keep_keys(Request& request) {
    const bool is_here =
        request.is_kept() && (request.has_been_read || !request.has(wire::kKeysRemote));
    if (request.header.kind != Kind::kPush || is_here || request.keys.empty() ||
        replication_.streams().empty())
        return;
    kept_keys_.resize(request.keys.size() / sizeof(uint64_t));
    std::memcpy(kept_keys_.data(), request.keys.data(), request.keys.size());
    request.keys = std::as_bytes(std::span(kept_keys_));
}

const Request* WaitingRequests::expand_body(const ShardTable& table, const Request& push) {
    const BodyForm form = table.rows->pushed_form(push.header.count);
    const Result<Body> body = decoder_.decode(form, push.codecs, push.values);
    const auto refused = [&](std::string why) {
        refused_.push_back({push.connection, std::move(why)});
        return nullptr;
    };
    if (!body) return refused(std::string(body.error().text()));
    expanded_ = push;
    expanded_.codecs = 0;
    expanded_.values = body->rows;
    expanded_.kept = body->kept;
    if (!push.has_keys_in_body()) return &expanded_;
    if (wire::ListEnds{body->keys.front(), body->keys.back()} != push.ends)
        return refused("an encoded body: keys between other ends than its push names");
    expanded_.keys = std::as_bytes(body->keys);
    return &expanded_;
}

/// The push that was expanded last has been executed.
void WaitingRequests::count_expanded(const ShardTable& table, const Request& push) {
    const size_t key_bytes =
        push.has_keys_in_body() ? push.header.count * sizeof(uint64_t) : size_t{0};
    counters_.filters.note_push(decoder_.sizes(), key_bytes);
    if (expanded_.kept.empty()) return;
    const size_t row_bytes = table.rows->pushed_form(0).row_bytes();
    counters_.filters.note_selected(push.header.count, expanded_.values.size() / row_bytes,
                                    row_bytes);
}

/// Maps the keys and values that lie in the worker's memory. False: they cannot be mapped.
bool WaitingRequests::map(Request& request) {
    const wire::FrameHeader& h = request.header;
    const RowLayout& layout = tables_[h.table]->rows->row_layout();
    const size_t value_bytes = request.asks_written()  ? 1
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

std::byte* WaitingRequests::map(ConnectionId connection, const wire::MemoryHandle& at,
                                size_t alignment, transport::Access access) {
    std::byte* const memory =
        endpoint_.map(connection, {at.address, at.length_bytes, at.key}, access);
    return reinterpret_cast<uintptr_t>(memory) % alignment == 0 ? memory : nullptr;
}

void WaitingRequests::count_remote(const Request& request) {
    counters_.bytes_received += request.keys_at.length_bytes;
    if (request.header.kind == Kind::kPush) {
        counters_.bytes_received += request.values_at.length_bytes;
    } else if (request.out != nullptr && request.codecs == 0) {
        counters_.bytes_sent += request.values_at.length_bytes;  // else who writes them counts them
    }
}

}  // namespace weir

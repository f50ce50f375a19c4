// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/requests/encoder.h"

#include <algorithm>
#include <cstring>

#include "lib/base/check.h"
#include "lib/key/key_list.h"
#include "lib/wire/scan_message.h"

namespace weir {

using wire::MemoryHandle;

namespace {

/// Copies rows of `row_bytes` from `from` to `to`, to[i] = from[order[i]].
void copy_in_order(std::span<const uint32_t> order, const std::byte* from, std::byte* to,
                   size_t row_bytes) {
    if (row_bytes == sizeof(uint32_t)) {
        for (const uint32_t i : order) {
            std::memcpy(to, from + size_t{i} * sizeof(uint32_t), sizeof(uint32_t));
            to += sizeof(uint32_t);
        }
        return;
    }
    for (const uint32_t i : order) {
        std::memcpy(to, from + i * row_bytes, row_bytes);
        to += row_bytes;
    }
}

/// All of it that does not depend on how keys and values travel.
void begin_header(uint64_t id, const Content& content, wire::FrameHeader& header) {
    header.kind = content.kind;
    header.request = id;
    header.first = content.first;
    header.epoch = content.epoch;
    if (!content.is_piece()) return;
    header.value_type = content.value_type;
    if (content.arguments != nullptr) header.encoding |= wire::kHasArguments;
    if (content.is_push() && content.has_out()) header.encoding |= wire::kWantsValues;
    if (content.asks_written) header.encoding |= wire::kAsksWritten;
    if (content.has_whole_rows) header.encoding |= wire::kWholeRows;
    if (content.erases) header.encoding |= wire::kErases;
    if (content.stamp != 0) header.encoding |= wire::kHasStamp;
    header.table = content.table;
    header.time = static_cast<uint32_t>(content.place.time);
    header.count = content.count;
    header.iteration = content.iteration;
    header.parts = content.parts;
    header.part_status = content.part_status;
}

}  // namespace

void Encoder::encode_control(uint64_t id, const Content& content, EncodedFrame& frame) {
    WEIR_CHECK(!content.is_piece());
    begin_header(id, content, frame.header);
    frame.add(content.body);
}

bool Encoder::encode_scan(uint64_t id, ClientRequest& request, const Peer& peer,
                          EncodedFrame& frame) {
    const Content& content = request.content();
    Attempt& attempt = request.attempt;
    WEIR_CHECK(content.is_scan() && attempt.out_copy && peer.is_open());
    begin_header(id, content, frame.header);
    const std::span<const std::byte> memory{attempt.out_copy.data(), content.out_row_bytes};
    if (!expose(peer, memory, frame.values_at_)) return false;
    attempt.form = wire::kValuesRemote;
    attempt.has_out_remote = true;
    frame.add(std::as_bytes(std::span(&frame.values_at_, 1)));
    frame.add(std::span(content.body).subspan(ScanMessage::kMemoryBytes));
    return true;
}

Encoder::Outcome Encoder::encode(uint64_t id, ClientRequest& request, const Peer& peer,
                                 EncodedFrame& frame) {
    const Content& content = request.content();
    WEIR_CHECK(content.is_piece() && peer.is_open());
    begin_header(id, content, frame.header);
    Attempt& attempt = request.attempt;
    attempt.form = 0;
    attempt.has_values_remote = attempt.has_out_remote = false;
    const bool wants_values = content.is_push() && content.has_out();
    if (content.is_part) attempt.form |= wire::kAggregate;
    if (content.iteration != 0) attempt.form |= wire::kIteration;
    if (content.is_range) attempt.form |= wire::kKeysRange;
    Work work{content,
              attempt,
              peer,
              message_bytes_max_ - sizeof frame.header -
                  (wants_values ? 3 : 2) * sizeof(MemoryHandle) - sizeof(wire::ListEnds),
              {},
              {}};
    if (content.stamp != 0) [[unlikely]] {
        frame.stamp_ = content.stamp;
        frame.add(std::as_bytes(std::span(&frame.stamp_, 1)));
        work.room -= sizeof frame.stamp_;
    }
    if (content.arguments != nullptr) {
        frame.add(*content.arguments);
        work.room -= content.arguments->size();
    }
    if (!content.is_range) {
        const Outcome placed = place_keys(work, frame.keys_at_);
        if (placed != Outcome::kDone) return placed;
    }
    if (content.is_push()) {
        const Outcome placed = place_values(work, frame.values_at_);
        if (placed != Outcome::kDone) return placed;
        attempt.form |= attempt.has_values_remote ? wire::kValuesRemote : wire::kValuesInline;
    }
    if (content.has_out()) {
        const Outcome placed = place_out(work, frame.out_at_);
        if (placed != Outcome::kDone) return placed;
        if (wants_values) {
            if (attempt.has_out_remote) frame.header.encoding |= wire::kOutRemote;
        } else {
            attempt.form |= attempt.has_out_remote ? wire::kValuesRemote : wire::kValuesInline;
        }
    }
    const uint8_t form = attempt.form;
    if ((form & wire::kKeysRemote) != 0) frame.add(std::as_bytes(std::span(&frame.keys_at_, 1)));
    if (attempt.has_values_remote) frame.add(std::as_bytes(std::span(&frame.values_at_, 1)));
    if (attempt.has_out_remote) frame.add(std::as_bytes(std::span(&frame.out_at_, 1)));
    if ((form & wire::kKeysKnown) != 0) {
        frame.ends_ = {content.list().front(), content.list().back()};
        frame.add(std::as_bytes(std::span(&frame.ends_, 1)));
    }
    if (!work.keys.empty()) frame.add(work.keys);
    if (!work.values.empty()) frame.add(work.values);
    frame.header.flags = form;
    return Outcome::kDone;
}

/// Up to so many bytes go to the shard in the message. A shard that has to READ them takes more
/// time than to copy them.
size_t Encoder::eager_bytes(const Peer& peer) const noexcept {
    return peer.maps_memory ? peer.copied_bytes_max : std::max(peer.copied_bytes_max, eager_bytes_);
}

bool Encoder::expose(const Peer& peer, std::span<const std::byte> memory, MemoryHandle& handle) {
    const Result<transport::RemoteSpan> remote = endpoint_.expose(peer.connection, memory);
    if (!remote) return false;
    handle = {remote->address, remote->length_bytes, remote->key};
    return true;
}

Encoder::Outcome Encoder::place_keys(Work& work, MemoryHandle& handle) {
    const Content& content = work.content;
    Attempt& attempt = work.attempt;
    const bool is_remembered = content.piece != nullptr && content.piece->known;
    if (is_remembered && content.count >= kRememberedKeysMin) {
        attempt.form |= wire::kKeysKnown;
        return Outcome::kDone;
    }
    const std::span<const std::byte> bytes = std::as_bytes(content.list());
    const auto put_in_message = [&] {
        attempt.form |= wire::kKeysInline;
        work.keys = bytes;
        work.room -= bytes.size();
        return Outcome::kDone;
    };
    const bool fits = bytes.size() <= work.room;
    if (fits && bytes.size() <= eager_bytes(work.peer)) return put_in_message();
    const bool is_copied = static_cast<bool>(attempt.keys_copy);
    if (!is_copied && expose(work.peer, bytes, handle)) {
        attempt.form |= wire::kKeysRemote;
        return Outcome::kDone;
    }
    if (fits) return put_in_message();
    if (!is_copied) {
        attempt.keys_copy = Block(memory_, bytes.size());
        if (!attempt.keys_copy) return Outcome::kNoMemory;
        std::memcpy(attempt.keys_copy.data(), bytes.data(), bytes.size());
        counters_.bytes_copied += bytes.size();
    }
    attempt.form |= wire::kKeysRemote;
    return expose(work.peer, {attempt.keys_copy.data(), bytes.size()}, handle) ? Outcome::kDone
                                                                               : Outcome::kBroken;
}

/// Puts the values together in a copy. A repeated send uses it as it is.
bool Encoder::copy_values(const Content& content, Attempt& attempt) {
    if (attempt.values_copy) return true;
    attempt.values_copy = Block(memory_, content.pushed_bytes());
    if (!attempt.values_copy) return false;
    std::byte* const copy = attempt.values_copy.data();
    if (content.order.empty()) {
        std::memcpy(copy, content.values.data(), content.pushed_bytes());
    } else {
        copy_in_order(content.order, content.values.data(), copy, content.row_bytes);
    }
    counters_.bytes_copied += content.pushed_bytes();
    return true;
}

/// Values go in the message if they are few; by address if their memory is registered (`handle`
/// is then set); in the message if they fit; and else through a registered copy. Values that are
/// scattered in the caller's array (because its list was regrouped by shard) have no single
/// address: they are copied.
Encoder::ValuesWay Encoder::choose_values_way(const Work& work, MemoryHandle& handle) {
    const Content& content = work.content;
    const size_t bytes = content.pushed_bytes();
    const bool fits = bytes <= work.room;
    if (content.erases) return ValuesWay::kInMessage;  // there are none
    const bool is_few = fits && bytes <= eager_bytes(work.peer);
    if (!content.order.empty() || work.attempt.values_copy)
        return is_few ? ValuesWay::kCopiedInMessage : ValuesWay::kCopiedByAddress;
    if (is_few) return ValuesWay::kInMessage;
    if (expose(work.peer, content.values, handle)) return ValuesWay::kByAddress;
    return fits ? ValuesWay::kInMessage : ValuesWay::kCopiedByAddress;
}

Encoder::Outcome Encoder::place_values(Work& work, MemoryHandle& handle) {
    const Content& content = work.content;
    Attempt& attempt = work.attempt;
    const size_t bytes = content.pushed_bytes();
    switch (choose_values_way(work, handle)) {
        case ValuesWay::kInMessage:
            work.values = {content.values.data(), bytes};
            return Outcome::kDone;
        case ValuesWay::kByAddress: attempt.has_values_remote = true; return Outcome::kDone;
        case ValuesWay::kCopiedInMessage:
            if (!copy_values(content, attempt)) return Outcome::kNoMemory;
            work.values = {attempt.values_copy.data(), bytes};
            return Outcome::kDone;
        case ValuesWay::kCopiedByAddress: break;
    }
    if (!copy_values(content, attempt)) return Outcome::kNoMemory;
    attempt.has_values_remote = true;
    return expose(work.peer, {attempt.values_copy.data(), bytes}, handle) ? Outcome::kDone
                                                                          : Outcome::kBroken;
}

/// The same of what is pulled: in the reply, by address, or through a copy.
Encoder::ValuesWay Encoder::choose_out_way(const Work& work, MemoryHandle& handle) {
    const Content& content = work.content;
    const size_t bytes = content.out_bytes();
    const bool fits = bytes <= message_bytes_max_ - sizeof(wire::FrameHeader);
    if (fits && bytes <= work.peer.copied_bytes_max) return ValuesWay::kInMessage;
    const bool has_address = content.order.empty() && !content.widens() && !work.attempt.out_copy;
    if (has_address && expose(work.peer, content.out, handle)) return ValuesWay::kByAddress;
    return fits ? ValuesWay::kInMessage : ValuesWay::kCopiedByAddress;
}

Encoder::Outcome Encoder::place_out(Work& work, MemoryHandle& handle) {
    Attempt& attempt = work.attempt;
    const size_t bytes = work.content.out_bytes();
    const ValuesWay way = choose_out_way(work, handle);
    if (way == ValuesWay::kInMessage) return Outcome::kDone;
    attempt.has_out_remote = true;
    if (way == ValuesWay::kByAddress) return Outcome::kDone;
    if (!attempt.out_copy) attempt.out_copy = Block(memory_, bytes);
    if (!attempt.out_copy) return Outcome::kNoMemory;
    return expose(work.peer, {attempt.out_copy.data(), bytes}, handle) ? Outcome::kDone
                                                                       : Outcome::kBroken;
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/requests/encoder.h"

#include <algorithm>
#include <cstring>

#include "lib/base/check.h"
#include "lib/key/key_list.h"

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
    if (content.arguments != nullptr) header.encoding = wire::kHasArguments;
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

Encoder::Outcome Encoder::encode(uint64_t id, ClientRequest& request, const Peer& peer,
                                 EncodedFrame& frame) {
    const Content& content = request.content();
    WEIR_CHECK(content.is_piece() && peer.is_open());
    begin_header(id, content, frame.header);
    Attempt& attempt = request.attempt;
    attempt.form = 0;
    if (content.is_part) attempt.form |= wire::kAggregate;
    if (content.iteration != 0) attempt.form |= wire::kIteration;
    if (content.is_range) attempt.form |= wire::kKeysRange;
    Work work{content,
              attempt,
              peer,
              message_bytes_max_ - sizeof frame.header - 2 * sizeof(MemoryHandle) -
                  sizeof(wire::ListEnds),
              {},
              {}};
    if (content.arguments != nullptr) {
        frame.add(*content.arguments);
        work.room -= content.arguments->size();
    }
    if (!content.is_range) {
        const Outcome placed = place_keys(work, frame.keys_at_);
        if (placed != Outcome::kDone) return placed;
    }
    if (const Outcome placed = place_values(work, frame.values_at_); placed != Outcome::kDone)
        return placed;
    const uint8_t form = attempt.form;
    if ((form & wire::kKeysRemote) != 0) frame.add(std::as_bytes(std::span(&frame.keys_at_, 1)));
    if ((form & wire::kValuesRemote) != 0)
        frame.add(std::as_bytes(std::span(&frame.values_at_, 1)));
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

/// Makes room for a copy; of a push the values go there. A repeated send uses it as it is.
bool Encoder::copy_values(const Content& content, Attempt& attempt) {
    if (attempt.values_copy) return true;
    attempt.values_copy = Block(memory_, content.value_bytes());
    if (!attempt.values_copy) return false;
    if (!content.is_push()) return true;
    std::byte* const copy = attempt.values_copy.data();
    if (content.order.empty()) {
        std::memcpy(copy, content.values.data(), content.value_bytes());
    } else {
        copy_in_order(content.order, content.values.data(), copy, content.row_bytes);
    }
    counters_.bytes_copied += content.value_bytes();
    return true;
}

/// Values go in the message if they are few; by address if their memory is registered (`handle`
/// is then set); in the message if they fit; and else through a registered copy. Values that are
/// scattered in the caller's array (because its list was regrouped by shard) have no single
/// address: a push copies them, and a pull gets them in the reply or through a copy.
Encoder::ValuesWay Encoder::choose_values_way(const Work& work, MemoryHandle& handle) {
    const Content& content = work.content;
    const bool is_push = content.is_push();
    const size_t bytes = content.value_bytes();
    const size_t room = is_push ? work.room : message_bytes_max_ - sizeof(wire::FrameHeader);
    const bool fits = bytes <= room;
    const size_t few = is_push ? eager_bytes(work.peer) : work.peer.copied_bytes_max;
    const bool is_few = fits && bytes <= few;
    const bool is_copied = static_cast<bool>(work.attempt.values_copy);
    const bool is_scattered = !content.order.empty();
    if (is_push && (is_scattered || is_copied))
        return is_few ? ValuesWay::kCopiedInMessage : ValuesWay::kCopiedByAddress;
    if (is_few) return ValuesWay::kInMessage;
    const std::span<const std::byte> where =
        is_push ? content.values : std::span<const std::byte>(content.out);
    if (!is_scattered && !is_copied && expose(work.peer, where, handle))
        return ValuesWay::kByAddress;
    return fits ? ValuesWay::kInMessage : ValuesWay::kCopiedByAddress;
}

Encoder::Outcome Encoder::place_values(Work& work, MemoryHandle& handle) {
    const Content& content = work.content;
    Attempt& attempt = work.attempt;
    const size_t bytes = content.value_bytes();
    const auto put_in_message = [&](const std::byte* from) {
        attempt.form |= wire::kValuesInline;
        if (!content.is_push()) return Outcome::kDone;
        work.values = {from, bytes};
        return Outcome::kDone;
    };
    switch (choose_values_way(work, handle)) {
        case ValuesWay::kInMessage: return put_in_message(content.values.data());
        case ValuesWay::kByAddress: attempt.form |= wire::kValuesRemote; return Outcome::kDone;
        case ValuesWay::kCopiedInMessage:
            if (!copy_values(content, attempt)) return Outcome::kNoMemory;
            return put_in_message(attempt.values_copy.data());
        case ValuesWay::kCopiedByAddress: break;
    }
    if (!copy_values(content, attempt)) return Outcome::kNoMemory;
    attempt.form |= wire::kValuesRemote;
    return expose(work.peer, {attempt.values_copy.data(), bytes}, handle) ? Outcome::kDone
                                                                          : Outcome::kBroken;
}

}  // namespace weir

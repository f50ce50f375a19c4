// SPDX-License-Identifier: Apache-2.0
/// \file
/// From a request to a frame: decides whether keys and values travel in the message, are read
/// from (or written to) the caller's registered memory, or are copied to registered memory of
/// ours.

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/core.h>

#include "lib/worker/client_core.h"

namespace weir {

using transport::Post;
using transport::RemoteSpan;
using wire::Kind;
using wire::MemoryHandle;

namespace {

constexpr uint64_t kPauseNs = kMillisecond;  // before a busy shard gets a request again

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

}  // namespace

void ClientCore::submit(uint64_t id, Request& request) {
    request.header.request = id;
    Peer& peer = peers_[request.peer];
    if (!peer.waiting.empty()) {
        peer.waiting.push_back(id);
        ++waiting_count_;
        return;
    }
    switch (post(id, request)) {
        case Outcome::kSent: return;
        case Outcome::kWait:
            peer.waiting.push_back(id);
            ++waiting_count_;
            return;
        case Outcome::kFailed: return end_request(id, request);
    }
}

size_t ClientCore::send_waiting() {
    size_t sent = 0;
    for (Peer& peer : peers_) {
        if (peer.is_held) continue;
        if (peer.not_before_ns != 0 && !peer.waiting.empty()) {
            if (clock_.now_ns() < peer.not_before_ns) continue;
            if (peer.state == Peer::State::kOpen) peer.not_before_ns = 0;
        }
        while (!peer.waiting.empty()) {
            const uint64_t id = peer.waiting.front();
            Request* const request = requests_.find(id);
            const Outcome outcome = request == nullptr ? Outcome::kSent : post(id, *request);
            if (outcome == Outcome::kWait) break;
            peer.waiting.pop_front();
            --waiting_count_;
            ++sent;
            if (outcome == Outcome::kFailed) end_request(id, *request);
        }
    }
    return sent;
}

/// Puts a request that was sent before into the queue of its peer: before the first push of its
/// table that has a later place, so that nothing overtakes it.
void ClientCore::send_again(uint64_t id, Request& request, bool after_pause) {
    request.state = Request::State::kUnsent;
    Peer& peer = peers_[request.peer];
    auto at = peer.waiting.end();
    for (auto before = at; request.place.time != 0 && before != peer.waiting.begin();) {
        const Request* const other = requests_.find(*--before);
        if (other == nullptr || other->header.table != request.header.table) continue;
        if (other->place.time == 0) continue;
        if (other->place < request.place) break;
        at = before;
    }
    peer.waiting.insert(at, id);
    ++waiting_count_;
    if (after_pause) peer.not_before_ns = clock_.now_ns() + kPauseNs;
}

/// The same, of many. What has no place comes after what has one.
void ClientCore::queue_again(Peer& peer, std::vector<uint64_t> requests) {
    waiting_count_ -= peer.waiting.size();
    requests.insert(requests.end(), peer.waiting.begin(), peer.waiting.end());
    std::erase_if(requests, [&](uint64_t id) { return requests_.find(id) == nullptr; });
    const auto place_of = [&](uint64_t id) {
        PiecePlace place = requests_.find(id)->place;
        if (place.time == 0) place.time = ~uint64_t{0};
        return place;
    };
    std::stable_sort(requests.begin(), requests.end(),
                     [&](uint64_t a, uint64_t b) { return place_of(a) < place_of(b); });
    peer.waiting.assign(requests.begin(), requests.end());
    waiting_count_ += peer.waiting.size();
}

/// Pushes have the low half of their time only. If that is not enough for the shard to know the
/// whole, another hello says it. False: it cannot be sent now.
bool ClientCore::tell_time(Peer& peer, PieceOrder& order, const Request& request) {
    wire::FrameHeader hello = wire::header_of(Kind::kHello);
    hello.request = peer.hello;
    hello.first = options_.worker;
    const std::vector<std::byte> body =
        FarTimeMessage{request.header.table, request.place.time}.encode();
    hello.body_bytes = static_cast<uint32_t>(body.size());
    const std::array<std::span<const std::byte>, 2> parts{wire::bytes_of(hello), body};
    if (endpoint_->send(peer.connection, parts) != Post::kPosted) return false;
    order.set_base(request.place.time);
    return true;
}

/// Makes the request tell the shard that this part of an iteration has failed. Used if the part
/// cannot be sent, mostly because its call has ended. Otherwise all workers would wait for the
/// part until their deadlines.
void ClientCore::send_as_failed(Request& request, Errc why) {
    if (request.is_in_doubt) abandon_memory(request);
    wire::FrameHeader& header = request.header;
    header.flags = wire::kAggregate | wire::kIteration | wire::kKeysRange | wire::kValuesInline;
    header.count = 0;
    header.part_status =
        why == Errc::kOk ? Errc::kCancelled : why;  // kOk: the caller took the error
    header.encoding = 0;
    request.arguments = nullptr;
    request.keys = {};
    request.from = {};
    request.order = {};
    request.piece = nullptr;
}

std::byte* ClientCore::stage(const Request& request, Block& block, size_t bytes) {
    if (!block) block = Block(memory_, bytes);
    if (!block) {
        if (Call* const call = calls_.find(request.call)) {
            call->note_error(
                Error(Errc::kNoMemory,
                      fmt::format("{}: no {} bytes of registered memory for a request; use "
                                  "weir::Buffer for what is pushed and pulled; the log of "
                                  "this process names the limit that was reached",
                                  table_text(request.header.table), bytes)));
        }
    }
    return block.data();
}

/// Up to so many bytes go to the shard in the message. A shard that has to READ them takes more
/// time than to copy them.
size_t ClientCore::eager_bytes(const Request& request) const {
    const Peer& peer = peers_[request.peer];
    return peer.maps_memory ? peer.copied_bytes_max
                            : std::max(peer.copied_bytes_max, options_.eager_bytes);
}

bool ClientCore::expose(const Request& request, std::span<const std::byte> memory,
                        MemoryHandle& handle) {
    const Result<RemoteSpan> remote = endpoint_->expose(peers_[request.peer].connection, memory);
    if (!remote) return false;
    handle = {remote->address, remote->length_bytes, remote->key};
    return true;
}

bool ClientCore::place_keys(Request& request, std::span<const std::byte>& inline_keys,
                            MemoryHandle& handle, size_t& room) {
    wire::FrameHeader& header = request.header;
    header.flags &=
        static_cast<uint8_t>(~(wire::kKeysInline | wire::kKeysRemote | wire::kKeysKnown));
    if ((header.flags & wire::kKeysRange) != 0) return true;
    const std::span<const std::byte> bytes = std::as_bytes(request.keys);
    if (request.piece != nullptr && request.piece->known && header.count >= kRememberedKeysMin) {
        header.flags |= wire::kKeysKnown;
        return true;
    }
    const bool short_enough = bytes.size() <= room;
    if (short_enough && bytes.size() <= eager_bytes(request)) {
        header.flags |= wire::kKeysInline;
        inline_keys = bytes;
        room -= bytes.size();
        return true;
    }
    if (expose(request, bytes, handle)) {
        header.flags |= wire::kKeysRemote;
        return true;
    }
    if (short_enough) {
        header.flags |= wire::kKeysInline;
        inline_keys = bytes;
        room -= bytes.size();
        return true;
    }
    std::byte* const copy = stage(request, request.staged_keys, bytes.size());
    if (copy == nullptr) return false;
    std::memcpy(copy, bytes.data(), bytes.size());
    counters_.bytes_copied += bytes.size();
    request.keys = {reinterpret_cast<const uint64_t*>(copy), request.keys.size()};
    header.flags |= wire::kKeysRemote;
    return expose(request, std::as_bytes(request.keys), handle);
}

bool ClientCore::stage_values(Request& request) {
    const size_t bytes = size_t{request.header.count} * request.row_bytes;
    std::byte* const buffer = stage(request, request.staged_values, bytes);
    if (buffer == nullptr) return false;
    if (request.header.kind == Kind::kPull) {
        if (request.callers_out.empty()) request.callers_out = request.into;
        request.into = {buffer, bytes};
        return true;
    }
    if (request.order.empty()) {
        std::memcpy(buffer, request.from.data(), bytes);
    } else {
        copy_in_order(request.order, request.from.data(), buffer, request.row_bytes);
        request.order = {};  // a repeated send uses the buffer as it is
    }
    counters_.bytes_copied += bytes;
    request.from = {buffer, bytes};
    return true;
}

/// Values go in the message if they are few; by address if their memory is registered (`handle`
/// is then set); in the message if they fit; and else through a registered copy. Values that are
/// scattered in the caller's array (because its list was regrouped by shard) have no single
/// address: a push copies them, and a pull gets them in the reply or through a copy.
ClientCore::ValuesWay ClientCore::choose_values_way(const Request& request, size_t room,
                                                    MemoryHandle& handle) {
    const bool is_push = request.header.kind == Kind::kPush;
    const size_t bytes = size_t{request.header.count} * request.row_bytes;
    const bool fits = bytes <= (is_push ? room : message_bytes_max_ - sizeof(wire::FrameHeader));
    const size_t few = is_push ? eager_bytes(request) : peers_[request.peer].copied_bytes_max;
    const bool is_few = fits && bytes <= few;
    const bool is_scattered = !request.order.empty() && !request.staged_values;
    if (is_scattered && is_push) {
        return is_few ? ValuesWay::kCopiedInMessage : ValuesWay::kCopiedByAddress;
    }
    if (is_few) return ValuesWay::kInMessage;
    const std::span<const std::byte> where =
        is_push ? request.from : std::span<const std::byte>(request.into);
    if (!is_scattered && expose(request, where, handle)) return ValuesWay::kByAddress;
    return fits ? ValuesWay::kInMessage : ValuesWay::kCopiedByAddress;
}

bool ClientCore::place_values(Request& request, std::span<const std::byte>& inline_values,
                              MemoryHandle& handle, size_t room) {
    wire::FrameHeader& header = request.header;
    header.flags &= static_cast<uint8_t>(~wire::kValueForms);
    const bool is_push = header.kind == Kind::kPush;
    switch (choose_values_way(request, room, handle)) {
        case ValuesWay::kCopiedInMessage:
            if (!stage_values(request)) return false;
            [[fallthrough]];
        case ValuesWay::kInMessage:
            header.flags |= wire::kValuesInline;
            if (is_push) inline_values = request.from;
            return true;
        case ValuesWay::kByAddress: header.flags |= wire::kValuesRemote; return true;
        case ValuesWay::kCopiedByAddress: break;
    }
    if (!stage_values(request)) return false;
    header.flags |= wire::kValuesRemote;
    return expose(request, is_push ? request.from : std::span<const std::byte>(request.into),
                  handle);
}

/// Whether a peer takes requests now. Greets it first if need be.
bool ClientCore::may_send_to(Peer& peer) {
    switch (peer.state) {
        case Peer::State::kOpen: return !peer.is_held && (peer.is_greeted || greet(peer));
        case Peer::State::kConnecting:
        case Peer::State::kBroken: return false;
        case Peer::State::kLost:
        case Peer::State::kGone: break;  // the request fails
    }
    return true;
}

/// Where keys and values go. False: there is no memory, which the call is told, or the connection is
/// broken, and closed() is about to come.
bool ClientCore::place(Request& request, Body& body) {
    const wire::FrameHeader& header = request.header;
    size_t room =
        message_bytes_max_ - sizeof header - 2 * sizeof(MemoryHandle) - sizeof(wire::ListEnds);
    if (request.arguments != nullptr) {
        body.add(*request.arguments);
        room -= request.arguments->size();
    }
    std::span<const std::byte> inline_keys;
    std::span<const std::byte> inline_values;
    if (!place_keys(request, inline_keys, body.keys_at, room) ||
        !place_values(request, inline_values, body.values_at, room)) {
        return false;
    }
    if ((header.flags & wire::kKeysRemote) != 0)
        body.add(std::as_bytes(std::span(&body.keys_at, 1)));
    if ((header.flags & wire::kValuesRemote) != 0)
        body.add(std::as_bytes(std::span(&body.values_at, 1)));
    if ((header.flags & wire::kKeysKnown) != 0) {
        body.ends = {request.keys.front(), request.keys.back()};
        body.add(std::as_bytes(std::span(&body.ends, 1)));
    }
    if (!inline_keys.empty()) body.add(inline_keys);
    if (!inline_values.empty()) body.add(inline_values);
    return true;
}

ClientCore::Outcome ClientCore::post(uint64_t id, Request& request) {
    // Of a call that has ended or is withdrawn nothing more is sent: the caller may already use its
    // memory for something else. Only a part of an iteration goes out, as failed.
    Call* const call = calls_.find(request.call);
    const bool is_part = (request.header.flags & wire::kAggregate) != 0;
    const bool is_over = call == nullptr || call->has_ended() || call->is_withdrawn;
    if (is_over && (call == nullptr || !is_part)) return Outcome::kFailed;
    if (is_over) send_as_failed(request, call->status.code());
    Peer& peer = peers_[request.peer];
    if (!may_send_to(peer)) return Outcome::kWait;
    wire::FrameHeader& header = request.header;
    if (peer.state == Peer::State::kLost && !wire::is_request(header.kind)) {
        call->note_error(gone(peer, request));
        return Outcome::kFailed;
    }
    header.request = id;
    Body body;
    body.parts[0] = wire::bytes_of(header);
    if (!wire::is_request(header.kind)) {
        body.add(request.body);
        return send(peer, request, body);
    }
    const bool is_open = peer.state == Peer::State::kOpen;
    if (is_open && place(request, body)) return send(peer, request, body);
    // Without an error, there is memory, but the connection is broken: closed() is about to come.
    if (is_open && call->status) return Outcome::kWait;
    call->note_error(gone(peer, request));
    if (!is_part || !is_open || header.count == 0) return Outcome::kFailed;
    send_as_failed(request, call->status.code());  // no memory for a copy
    return post(id, request);
}

ClientCore::Outcome ClientCore::send(Peer& peer, Request& request, Body& body) {
    wire::FrameHeader& header = request.header;
    const std::span parts = std::span(body.parts).first(body.count);
    header.body_bytes = 0;
    for (const std::span<const std::byte> part : parts.subspan(1))
        header.body_bytes += static_cast<uint32_t>(part.size());
    const bool is_push = header.kind == Kind::kPush && (header.flags & wire::kAggregate) == 0;
    if (request.peer == manager()) {
        to_manager_.send(header, request.body);
        request.state = Request::State::kSent;
        return Outcome::kSent;
    }
    PieceOrder* const order = is_push ? &peer.order(header.table) : nullptr;
    if (order != nullptr) {
        if (order->is_far(request.place.time) && !tell_time(peer, *order, request))
            return Outcome::kWait;
        header.set_predecessor(order->predecessor(request.place));
    }
    switch (endpoint_->send(peer.connection, parts)) {
        case Post::kPosted: break;
        case Post::kClosed:  // closed() is about to come
        case Post::kNotNow: return Outcome::kWait;
        case Post::kInvalid:
            if (Call* const call = calls_.find(request.call); call != nullptr && !call->has_ended())
                call->note_error(gone(peer, request));
            return Outcome::kFailed;
    }
    // Other workers wait for a part of an iteration, and this one may do something else than poll.
    const bool is_part = (header.flags & wire::kAggregate) != 0;
    may_wait_ = may_wait_.value_or(true) && peer.flush_is_a_call && !is_part;
    request.state = Request::State::kSent;
    request.was_sent = true;
    if (order != nullptr) request.send_number = order->sent(request.place);
    const bool push_inline =
        header.kind == Kind::kPush && (header.flags & wire::kValuesInline) != 0;
    if (push_inline) counters_.bytes_copied += size_t{header.count} * request.row_bytes;
    if ((header.flags & wire::kKeysInline) != 0)
        counters_.bytes_copied += request.keys.size_bytes();
    return Outcome::kSent;
}

}  // namespace weir

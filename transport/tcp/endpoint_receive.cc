// SPDX-License-Identifier: Apache-2.0
/// \file
/// TcpEndpoint: from a connection's socket to messages and registered memory.

#include <array>
#include <cstring>
#include <shared_mutex>

#include <fmt/core.h>

#include "transport/tcp/endpoint.h"
#include "transport/tcp/limits.h"

namespace weir::transport::tcp {

namespace {

Error breach(std::string text) {
    return {Errc::kProtocol, std::move(text)};
}

bool is_write(const Incoming& incoming) {
    return incoming.type != FrameType::kReadData;
}

/// Where a peer's span lies; it was found in a region of ours.
std::byte* own_memory(const RemoteSpan& span) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): expose() gave the peer this address as a number
    return reinterpret_cast<std::byte*>(span.address);
}

/// What is still to be written of a peer's write.
RemoteSpan rest_of(const Incoming& incoming) {
    return {reinterpret_cast<uint64_t>(incoming.at), incoming.bytes_left, incoming.exposed.key};
}

}  // namespace

void TcpEndpoint::receive(TcpConnection& c) {
    size_t received = 0;
    while (c.state != State::kEnded && !c.has_unused_input && received < kReceivedBytesPerPoll) {
        size_t count = 0;
        size_t wanted = 0;
        const Socket::Got got = receive_some(c, count, wanted);
        if (got == Socket::Got::kEnd) c.peer_ended = true;
        const bool is_over = got == Socket::Got::kEnd || got == Socket::Got::kBroken;
        if (is_over && c.state != State::kEnded) take_end(c);
        if (got != Socket::Got::kSome) return;
        received += count;
        if (!std::exchange(c.is_busy, true)) busy_.push_back(c.id);
        use_input(c);
        if (count < wanted) return;
    }
}

/// Receives once: data that registered memory waits for go there, all else into the input buffer.
Socket::Got TcpEndpoint::receive_some(TcpConnection& c, size_t& count, size_t& wanted) {
    if (!c.is_lent) c.input->compact();
    std::array<iovec, 2> to;
    size_t parts = 0;
    uint64_t direct = 0;
    if (c.incoming && c.incoming->bytes_left > 0 && c.input->empty()) {
        direct = c.incoming->bytes_left;
        to[parts++] = {c.incoming->at, direct};
    }
    if (std::span<std::byte> room = c.input->room(direct); !room.empty()) {
        if (direct >= kDirectBytesMany)
            room = room.first(std::min(room.size(), kInputBytesBehindMany));
        to[parts++] = {room.data(), room.size()};
    }
    if (parts == 0) return Socket::Got::kNothing;  // until the caller gives messages back
    for (size_t i = 0; i < parts; ++i)
        wanted += to[i].iov_len;
    std::shared_lock<std::shared_mutex> exposed_stays;
    if (direct > 0 && is_write(*c.incoming)) {
        exposed_stays = std::shared_lock(device_.in_use());
        if (regions_.find_remote(rest_of(*c.incoming), Access::kRemoteWrite) == nullptr) {
            exposed_stays.unlock();
            fail(c, Errc::kRefused, "what it writes to was deregistered meanwhile");
            return Socket::Got::kBroken;
        }
    }
    const Socket::Got got = c.socket.receive(std::span(to).first(parts), count);
    if (exposed_stays.owns_lock()) exposed_stays.unlock();
    const uint64_t went_direct = std::min<uint64_t>(count, direct);
    if (direct > 0) {
        c.incoming->at += went_direct;
        c.incoming->bytes_left -= went_direct;
    }
    c.input->received(went_direct, count - went_direct);
    return got;
}

void TcpEndpoint::use_input(TcpConnection& c) {
    while (c.state != State::kEnded) {
        const Result<bool> used = use_next(c);
        if (!used) {
            ++counters_.refused;
            return fail(c, used.code(), used.error().text());
        }
        if (!*used) return;
    }
}

/// Uses the next frame, or the next data. False: more has to come first, or the caller has no
/// room.
Result<bool> TcpEndpoint::use_next(TcpConnection& c) {
    if (c.incoming) {
        WEIR_TRY(take_data(c));
        return !c.incoming.has_value();
    }
    const std::span<const std::byte> bytes = c.input->bytes();
    if (bytes.size() < kHeadBytes) return false;
    WEIR_ASSIGN(const FrameType type, frame_type(bytes.first<kHeadBytes>()));
    if (bytes.size() < head_bytes(type)) return false;
    WEIR_ASSIGN(const Frame frame, decode_frame(bytes.first(head_bytes(type))));
    WEIR_TRY(take_frame(c, frame));
    return c.input->bytes().size() != bytes.size();
}

Status TcpEndpoint::take_frame(TcpConnection& c, const Frame& frame) {
    const bool is_answer = frame.type == FrameType::kReadData || frame.type == FrameType::kWritten;
    if (c.peer_bye && !is_answer) return breach("it sent more after its Bye");
    if (frame.type == FrameType::kMessage) return take_message(c, frame.number);
    c.input->use(head_bytes(frame.type));
    switch (frame.type) {
        case FrameType::kMessage: return {};
        case FrameType::kRead: return answer_read(c, frame);
        case FrameType::kWrite:
        case FrameType::kWriteImmediate: return begin_write(c, frame);
        case FrameType::kReadData: return begin_read_data(c);
        case FrameType::kWritten: return end_writes(c, frame.number);
        case FrameType::kBye: take_bye(c); return {};
    }
    return {};
}

/// Lends the message to the caller where it lies. If it is not whole, or the caller has no room,
/// nothing is used.
Status TcpEndpoint::take_message(TcpConnection& c, uint32_t length_bytes) {
    if (length_bytes > options_.message_bytes_max) {
        return breach(fmt::format("it sent a message of {} bytes; the longest has {}", length_bytes,
                                  options_.message_bytes_max));
    }
    const size_t frame_bytes = kHeadBytes + length_bytes + padding_of(length_bytes);
    if (c.input->bytes().size() < frame_bytes) return {};
    if (!can_deliver()) {
        keep_unused(c);
        return {};
    }
    add_completion(c, Event::kReceived);
    delivery_.back().message = c.input->bytes().subspan(kHeadBytes, length_bytes);
    c.input->use(frame_bytes);
    if (!c.is_lent) lending_.push_back(c.id);
    c.is_lent = true;
    ++counters_.messages_received;
    counters_.bytes_received += length_bytes;
    return {};
}

Status TcpEndpoint::answer_read(TcpConnection& c, const Frame& frame) {
    const RemoteSpan& span = frame.span;
    if (c.output.exposed_parts() >= kOperationsMost) {
        return breach(fmt::format("it has more than {} reads in flight", kOperationsMost));
    }
    if (span.length_bytes > 0 && regions_.find_remote(span, Access::kRemoteRead) == nullptr) {
        return Error(Errc::kRefused, "it reads memory that is not registered for that");
    }
    add_written(c);  // of the writes that came before
    c.output.add(Frame{FrameType::kReadData, 0, {}});
    c.output.add_exposed({own_memory(span), span.length_bytes}, span.key);
    flush_later(c);
    return {};
}

Status TcpEndpoint::begin_write(TcpConnection& c, const Frame& frame) {
    const RemoteSpan& span = frame.span;
    if (span.length_bytes > 0 && regions_.find_remote(span, Access::kRemoteWrite) == nullptr) {
        return Error(Errc::kRefused, "it writes memory that is not registered for that");
    }
    c.incoming = {frame.type,       frame.number,      span,
                  own_memory(span), span.length_bytes, padding_of(span.length_bytes)};
    return {};
}

Status TcpEndpoint::begin_read_data(TcpConnection& c) {
    if (c.operations.empty() || c.operations.front().event != Event::kRead) {
        return breach("it sent data that nobody asked for");
    }
    const std::span<std::byte> into = c.operations.front().into;
    c.incoming = {FrameType::kReadData, 0, {}, into.data(), into.size(), padding_of(into.size())};
    return {};
}

/// Takes what the input has of the data that are coming; at their end, ends the operation.
Status TcpEndpoint::take_data(TcpConnection& c) {
    Incoming& incoming = *c.incoming;
    const size_t staged = std::min<uint64_t>(incoming.bytes_left, c.input->bytes().size());
    if (staged > 0) {
        std::shared_lock<std::shared_mutex> exposed_stays;
        if (is_write(incoming)) {
            exposed_stays = std::shared_lock(device_.in_use());
            if (regions_.find_remote(rest_of(incoming), Access::kRemoteWrite) == nullptr) {
                return Error(Errc::kRefused, "what it writes to was deregistered meanwhile");
            }
        }
        std::memcpy(incoming.at, c.input->bytes().data(), staged);
        incoming.at += staged;
        incoming.bytes_left -= staged;
        c.input->use(staged);
        counters_.bytes_staged += staged;
    }
    if (incoming.bytes_left > 0) return {};
    const size_t padding = std::min(incoming.padding_left, c.input->bytes().size());
    c.input->use(padding);
    incoming.padding_left -= padding;
    if (incoming.padding_left > 0) return {};
    if (incoming.type == FrameType::kReadData) {
        const Operation done = c.operations.pop();
        add_completion(c, done.event, Errc::kOk, done.context);
        c.incoming.reset();
        advance_close(c);
        return {};
    }
    if (incoming.type == FrameType::kWriteImmediate) {
        if (!can_deliver()) {
            keep_unused(c);
            return {};
        }
        add_completion(c, Event::kImmediate);
        delivery_.back().immediate = incoming.immediate;
    }
    c.incoming.reset();
    ++c.writes_done;
    flush_later(c);
    return {};
}

Status TcpEndpoint::end_writes(TcpConnection& c, uint32_t count) {
    for (; count > 0; --count) {
        if (c.operations.empty() || c.operations.front().event != Event::kWritten) {
            return breach("it says that writes have ended which were not posted");
        }
        add_completion(c, Event::kWritten, Errc::kOk, c.operations.pop().context);
    }
    advance_close(c);
    return {};
}

/// The caller has no room for what comes next: the next poll goes on here.
void TcpEndpoint::keep_unused(TcpConnection& c) {
    if (c.has_unused_input) return;
    c.has_unused_input = true;
    unused_.push_back(c.id);
}

}  // namespace weir::transport::tcp

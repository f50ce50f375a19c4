// SPDX-License-Identifier: Apache-2.0
/// \file
/// TcpEndpoint: connections begin. The handshake of transport/net proves that both sides know the
/// secret; their payload is the longest message of their endpoint.

#include <array>

#include <fmt/core.h>

#include "lib/base/byte_codec.h"
#include "lib/base/log.h"
#include "transport/address_parts.h"
#include "transport/net/own_address.h"
#include "transport/tcp/endpoint.h"
#include "transport/tcp/limits.h"

namespace weir::transport::tcp {

Result<ConnectionId> TcpEndpoint::connect(std::string_view any_address) {
    const std::string_view address = part_of_scheme(any_address, kScheme);
    if (!address.starts_with(kScheme)) {
        return wrong_scheme(address, kScheme);
    }
    WEIR_ASSIGN(const SocketAddress to, SocketAddress::parse(address.substr(kScheme.size())));
    if (connections_.size() >= options_.connections_max) {
        return Error(
            Errc::kBusy,
            fmt::format("tcp: this endpoint has {} connections, its limit; close some, or raise "
                        "EndpointOptions::connections_max",
                        connections_.size()));
    }
    TcpConnection& c = add(Side::kConnecting);
    c.is_known_to_caller = true;
    c.target = to;
    c.peer_name = to.text();
    enter(c, State::kDialing);
    dial(c);
    return c.id;
}

TcpConnection& TcpEndpoint::add(Side side) {
    const ConnectionId id = ++last_id_;
    auto c = std::make_unique<TcpConnection>(id, side, device_.options().secret, random_bytes());
    return *connections_.emplace(id, std::move(c)).first->second;
}

bool TcpEndpoint::has_room() const {
    return connections_.size() < kConnectionsMost;
}

uint64_t TcpEndpoint::adopt(Descriptor socket) {
    TcpConnection& c = add(Side::kAccepting);
    c.peer_name = SocketAddress::peer(socket.get()).text();
    c.socket = Socket(std::move(socket), device_.options().silence_ms_max);
    enter(c, State::kMeeting);
    if (const Status watched = watcher_.watch(c.socket.fd(), c.id, Watcher::For::kInput);
        !watched) {
        fail(c, watched.code(), watched.error().message());
        return 0;
    }
    return c.id;
}

void TcpEndpoint::evict(uint64_t id) {
    TcpConnection* const c = find(id);
    if (c == nullptr) return;
    serve(*c);  // if we were late, its proof may be here
    if (!c->is_unproven()) return;
    ++counters_.refused;
    c->handshake.refuse(Errc::kDeadline, HalfOpenPlaces::kRetryText);
    fail(*c, Errc::kDeadline, HalfOpenPlaces::kEvictedText);
}

void TcpEndpoint::dial(TcpConnection& c) {
    Result<Socket> socket = Socket::connect(c.target, device_.options().silence_ms_max);
    if (!socket) return fail(c, Errc::kPeerLost, socket.error().message());
    c.socket = std::move(*socket);
    // It becomes writable once it is connected.
    c.is_watched_for_output = true;
    if (const Status watched = watcher_.watch(c.socket.fd(), c.id, Watcher::For::kInputAndOutput);
        !watched) {
        fail(c, watched.code(), watched.error().message());
    }
}

/// Handles what has happened on the socket of a connection that is coming.
void TcpEndpoint::meet(TcpConnection& c) {
    if (c.state == State::kDialing) {
        if (const int code = c.socket.failure(); code != 0) {
            const Error error(Errc::kPeerLost, "cannot connect", code);
            return fail(c, error.code(), fmt::format("{}; {}", error.message(), kBindAdvice));
        }
        enter(c, State::kMeeting);
    }
    send_handshake(c);
    while (c.is_coming()) {
        std::array<std::byte, 512> bytes;
        size_t count = 0;
        const Socket::Got got = c.socket.receive(bytes, count);
        if (got == Socket::Got::kNothing) return;
        if (got != Socket::Got::kSome) {
            if (c.side == Side::kAccepting) ++counters_.refused;
            return fail(c, Errc::kPeerLost,
                        "it closed the connection before the handshake was complete");
        }
        c.records.append(std::span(bytes).first(count));
        take_records(c);
    }
}

void TcpEndpoint::take_records(TcpConnection& c) {
    while (c.is_coming()) {
        const Result<std::optional<RecordView>> record = c.records.next();
        if (record && !*record) break;
        const Result<Handshake::Step> step =
            record ? c.handshake.take(**record) : Result<Handshake::Step>(record.error());
        if (!step && c.side == Side::kConnecting && step.code() == Errc::kDeadline) {
            // The peer has no place for us now. If it is gone, the next attempt reports that.
            log(LogLevel::kDebug, "tcp: {} has no place for a connection now; it is tried again",
                c.peer_name);
            return dial_again(c);
        }
        if (!step) {
            ++counters_.refused;
            // A peer without the secret learns no more than that. A refusal needs no answer.
            if (c.side == Side::kAccepting && step.code() == Errc::kRefused) {
                c.handshake.refuse(Errc::kRefused, "wrong secret");
            }
            return fail(c, step.code(), step.error().text());
        }
        if (const Status taken = take_step(c, *step); !taken) {
            c.handshake.refuse(taken.code(), taken.error().message());
            return fail(c, taken.code(), taken.error().message());
        }
    }
    if (c.state != State::kEnded) send_handshake(c);
}

Status TcpEndpoint::take_step(TcpConnection& c, Handshake::Step step) {
    const bool connects = c.side == Side::kConnecting;
    switch (step) {
        case Handshake::Step::kWait: return {};
        case Handshake::Step::kSendPayload: send_payload(c); return {};
        case Handshake::Step::kProven:
            enter(c, State::kJoining);
            WEIR_TRY(check_peer(c));
            if (!connects) {
                send_payload(c);
                return {};
            }
            c.handshake.ready();
            send_handshake(c);
            open(c);
            return {};
        case Handshake::Step::kOpen: open(c); return {};
    }
    return {};
}

void TcpEndpoint::send_payload(TcpConnection& c) {
    c.handshake.send_payload(ByteWriter().number(options_.message_bytes_max).bytes());
}

Status TcpEndpoint::check_peer(TcpConnection& c) {
    ByteReader reader(c.handshake.peer_payload());
    const auto message_bytes_max = reader.number<uint32_t>();
    if (!reader.done()) return Error(Errc::kProtocol, "its handshake has a payload of no peer");
    if (message_bytes_max != options_.message_bytes_max) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("one side has messages of at most {} bytes and the other of {}: "
                                 "give all ranks the same WEIR_EAGER_BYTES",
                                 options_.message_bytes_max, message_bytes_max));
    }
    const size_t others = connections_.size() - acceptor_.coming();
    if (c.side == Side::kAccepting && others >= options_.connections_max) {
        return Error(Errc::kBusy,
                     fmt::format("{} has {} connections, its limit; use more shards or fewer "
                                 "workers",
                                 address(), others));
    }
    return {};
}

/// The handshake is over. What came behind it are frames.
void TcpEndpoint::open(TcpConnection& c) {
    c.input.emplace(kInputBytes + options_.message_bytes_max);
    const std::span<const std::byte> rest = c.records.rest();
    std::copy(rest.begin(), rest.end(), c.input->room().begin());
    c.input->received(0, rest.size());
    enter(c, State::kOpen);
    c.is_known_to_caller = true;
    add_completion(c, c.side == Side::kConnecting ? Event::kConnected : Event::kAccepted);
    use_input(c);
}

void TcpEndpoint::dial_again(TcpConnection& c) {
    watcher_.forget(c.socket.fd());
    c.socket.close();
    c.handshake = Handshake(kProtocol, c.side, device_.options().secret, random_bytes());
    c.records = RecordReader(kProtocol, Handshake::kBodyBytesMax);
    c.state = State::kDialing;
    dial(c);
}

}  // namespace weir::transport::tcp

// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/rendezvous/rendezvous_link.h"

#include <array>
#include <utility>

namespace weir::boot {

using transport::Handshake;
using transport::Socket;
using transport::SocketAddress;

RendezvousLink::RendezvousLink(Socket socket, transport::Side side,
                               const std::optional<transport::Secret>& secret)
    : socket_(std::move(socket)),
      peer_address_(SocketAddress::peer(socket_.fd())),
      peer_(peer_address_.text()),
      reader_(kRendezvousProtocol, Handshake::kBodyBytesMax),
      handshake_(kRendezvousProtocol, side, secret.value_or(transport::Secret{}),
                 transport::random_bytes()) {}

/// Handshake output goes before everything that is queued later.
void RendezvousLink::queue_handshake() {
    if (handshake_.output().empty()) return;
    out_.push_back(
        std::make_shared<const std::vector<std::byte>>(std::exchange(handshake_.output(), {})));
}

void RendezvousLink::queue(SharedBytes bytes) {
    queue_handshake();
    out_.push_back(std::move(bytes));
}

Status RendezvousLink::flush() {
    queue_handshake();
    while (!out_.empty()) {
        const std::span<const std::byte> rest = std::span(*out_.front()).subspan(out_sent_);
        const std::optional<size_t> sent = socket_.send_some(rest);
        if (!sent) return Error(Errc::kPeerLost, "the connection broke");
        out_sent_ += *sent;
        if (*sent < rest.size()) return {};
        out_.pop_front();
        out_sent_ = 0;
    }
    return {};
}

Status RendezvousLink::fill() {
    std::array<std::byte, 8192> buffer;
    size_t count = 0;
    switch (socket_.receive(buffer, count)) {
        case Socket::Got::kSome: reader_.append(std::span(buffer).first(count)); break;
        case Socket::Got::kNothing: break;
        case Socket::Got::kEnd:
        case Socket::Got::kBroken: return Error(Errc::kPeerLost, "the connection was closed");
    }
    return {};
}

}  // namespace weir::boot

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// One connection of the rendezvous: non-blocking; it reads whole records and sends queued bytes.

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/bootstrap/rendezvous/rendezvous_message.h"
#include "transport/net/handshake.h"
#include "transport/net/socket.h"

namespace weir::boot {

/// Bytes that many links can queue.
using SharedBytes = std::shared_ptr<const std::vector<std::byte>>;

/// Thread: one. Nothing here blocks.
class RendezvousLink {
public:
    /// Without a secret, uses one of zeros.
    RendezvousLink(transport::Socket socket, transport::Side side,
                   const std::optional<transport::Secret>& secret);

    [[nodiscard]] int fd() const noexcept { return socket_.fd(); }

    /// The other side's address, for messages.
    [[nodiscard]] const std::string& peer() const noexcept { return peer_; }

    [[nodiscard]] const transport::SocketAddress& peer_address() const noexcept {
        return peer_address_;
    }

    /// This side's address.
    [[nodiscard]] transport::SocketAddress own_address() const {
        return transport::SocketAddress::own(fd());
    }

    /// Its output is sent with the next flush().
    [[nodiscard]] transport::Handshake& handshake() noexcept { return handshake_; }

    /// Allows longer records from now on: the peer has passed the handshake.
    void trust() noexcept { reader_.set_body_bytes_max(kRendezvousBodyBytesMax); }

    void queue(const RendezvousMessage& message) {
        queue(std::make_shared<const std::vector<std::byte>>(encode(message)));
    }

    void queue(SharedBytes bytes);

    [[nodiscard]] bool has_output() noexcept {
        return !out_.empty() || !handshake_.output().empty();
    }

    /// Sends what the socket takes. Errors: kPeerLost
    [[nodiscard]] Status flush();

    /// Reads once from the socket, without waiting. Errors: kPeerLost, also at the end of the
    /// stream
    [[nodiscard]] Status fill();

    /// The next whole record, or nullopt. After each fill(), call it until it returns nullopt.
    /// Errors:  kProtocol
    [[nodiscard]] Result<std::optional<transport::RecordView>> next() { return reader_.next(); }

private:
    void queue_handshake();

    transport::Socket socket_;
    transport::SocketAddress peer_address_;
    std::string peer_;
    transport::RecordReader reader_;
    transport::Handshake handshake_;
    std::deque<SharedBytes> out_;
    size_t out_sent_ = 0;  ///< bytes of out_.front() already sent
};

}  // namespace weir::boot

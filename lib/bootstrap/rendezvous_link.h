// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// One connection of the rendezvous: non-blocking, whole records in, queued bytes out.

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/bootstrap/rendezvous_message.h"
#include "transport/net/handshake.h"
#include "transport/net/socket.h"

namespace weir::boot {

/// Bytes that many links can queue.
using SharedBytes = std::shared_ptr<const std::vector<std::byte>>;

/// Thread: one. Nothing here blocks.
class RendezvousLink {
public:
    /// Without a secret: one of zeros.
    RendezvousLink(transport::Socket socket, transport::Side side,
                   const std::optional<transport::Secret>& secret);

    [[nodiscard]] int fd() const noexcept { return socket_.fd(); }

    /// The other side's address, for messages.
    [[nodiscard]] const std::string& peer() const noexcept { return peer_; }

    /// What it has to say is sent with the next flush().
    [[nodiscard]] transport::Handshake& handshake() noexcept { return handshake_; }

    /// Longer records, too, from now on: the peer has proved that it belongs here.
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

    /// Reads once what has arrived. Errors: kPeerLost, also at the end of the stream
    [[nodiscard]] Status fill();

    /// The next whole record, or nothing; call until nothing before the next fill().
    /// Errors:  kProtocol
    [[nodiscard]] Result<std::optional<transport::RecordView>> next() { return reader_.next(); }

private:
    void queue_handshake();

    transport::Socket socket_;
    std::string peer_;
    transport::RecordReader reader_;
    transport::Handshake handshake_;
    std::deque<SharedBytes> out_;
    size_t out_sent_ = 0;  ///< of the first of out_
};

}  // namespace weir::boot

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// One connection of the rendezvous: non-blocking, whole messages in, queued bytes out.

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "lib/bootstrap/rendezvous_message.h"
#include "lib/bootstrap/socket.h"

namespace weir::boot {

/// Thread: one. Nothing here blocks.
class RendezvousLink {
public:
    explicit RendezvousLink(Descriptor fd) : fd_(std::move(fd)), peer_(tcp_peer_name(fd_.get())) {}

    [[nodiscard]] int fd() const noexcept { return fd_.get(); }

    /// The other side's address, for messages.
    [[nodiscard]] const std::string& peer() const noexcept { return peer_; }

    void queue(const RendezvousMessage& message) {
        queue(std::make_shared<const std::string>(encode(message)));
    }

    /// Many links can queue the same bytes.
    void queue(std::shared_ptr<const std::string> bytes) { out_.push_back(std::move(bytes)); }

    [[nodiscard]] bool has_output() const noexcept { return !out_.empty(); }

    /// Sends what the socket takes. Errors: kPeerLost
    [[nodiscard]] Status flush();

    /// Reads once what has arrived. Errors: kPeerLost, also at the end of the stream
    [[nodiscard]] Status fill();

    /// The next whole message, or nothing; call until nothing before the next fill().
    /// Errors:  kProtocol
    [[nodiscard]] Result<std::optional<RendezvousMessage>> next() { return reader_.next(); }

    /// See RendezvousReader.
    void set_body_bytes_max(size_t bytes) noexcept { reader_.set_body_bytes_max(bytes); }

private:
    Descriptor fd_;
    std::string peer_;
    RendezvousReader reader_;
    std::deque<std::shared_ptr<const std::string>> out_;
    size_t out_sent_ = 0;  // of the first of out_
};

}  // namespace weir::boot

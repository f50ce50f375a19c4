// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RendezvousCall: a connection to rank 0's rendezvous, from the side of who looks for the job.

#include <optional>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/host_port.h"
#include "lib/bootstrap/rendezvous/rendezvous_link.h"

namespace weir::boot {

/// Thread: one. connect() and receive() block, until their deadlines at most.
class RendezvousCall {
public:
    RendezvousCall(HostPort at, std::optional<transport::Secret> secret, const Clock& clock)
        : at_(std::move(at)), secret_(secret), clock_(clock) {}

    /// Connects once, proves that it knows the secret, and says `hello` (and there whether it has
    /// a secret).
    /// Errors:  kPeerLost (nobody listens, or the connection broke), kDeadline (as well if rank 0
    ///          has too many peers: try again), kRefused, kProtocol
    [[nodiscard]] Status connect(RendezvousHello hello, uint64_t deadline_ns);

    [[nodiscard]] bool is_connected() const noexcept { return link_.has_value(); }

    /// This host's address on the way to rank 0, while it is connected. Unset: that is this host.
    [[nodiscard]] transport::SocketAddress own_address() const;

    void close() noexcept { link_.reset(); }

    /// To be sent with the next receive().
    void queue(const RendezvousMessage& message) { link_->queue(message); }

    /// Waits for the next record; meanwhile sends what is queued.
    /// Errors:  kDeadline, kPeerLost, kProtocol
    [[nodiscard]] Result<transport::RecordView> receive(uint64_t deadline_ns);

    /// Where it connects to.
    [[nodiscard]] std::string at() const { return at_.text(); }

private:
    [[nodiscard]] Status shake_hands(const RendezvousHello& hello, uint64_t deadline_ns);
    [[nodiscard]] Error not_let_in(const Error& error);

    HostPort at_;
    std::optional<transport::Secret> secret_;
    const Clock& clock_;
    std::optional<RendezvousLink> link_;
};

}  // namespace weir::boot

// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/rendezvous/rendezvous_call.h"

#include <utility>

#include <fmt/core.h>
#include <poll.h>

#include "lib/bootstrap/bootstrap.h"
#include "lib/bootstrap/rendezvous/socket.h"

namespace weir::boot {

using transport::Handshake;

Status RendezvousCall::connect(RendezvousHello hello, uint64_t deadline_ns) {
    WEIR_ASSIGN(transport::Socket socket, tcp_connect(at_, clock_, deadline_ns));
    link_.emplace(std::move(socket), transport::Side::kConnecting, secret_);
    hello.secured = secret_.has_value();
    Status done = shake_hands(hello, deadline_ns);
    if (!done) close();
    return done;
}

transport::SocketAddress RendezvousCall::own_address() const {
    transport::SocketAddress own = link_->own_address();
    own.set_port(0);
    return own.is_loopback() || own.is_link_local() ? transport::SocketAddress() : own;
}

Status RendezvousCall::shake_hands(const RendezvousHello& hello, uint64_t deadline_ns) {
    Handshake& handshake = link_->handshake();
    while (!handshake.is_open()) {
        WEIR_ASSIGN(const transport::RecordView record, receive(deadline_ns));
        const Result<Handshake::Step> step = handshake.take(record);
        if (!step) return not_let_in(step.error());
        if (*step == Handshake::Step::kSendPayload) handshake.send_payload(hello.encode());
        if (*step == Handshake::Step::kProven) handshake.ready();
    }
    link_->trust();
    return {};
}

Error RendezvousCall::not_let_in(const Error& error) {
    if (link_->handshake().was_refused()) {
        return {error.code(), fmt::format("rendezvous: rank 0 at {}: {}", at(), error.text())};
    }
    if (error.code() == Errc::kRefused) {
        return {Errc::kRefused,
                fmt::format("rendezvous: the program that listens on {} does not know this "
                            "process's secret: give the same WEIR_SECRET_FILE to all processes "
                            "of a job",
                            at())};
    }
    return {error.code(), fmt::format("rendezvous: rank 0 at {} sent what is not expected now: {}; "
                                      "use the same version of Weir everywhere",
                                      at(), error.text())};
}

Result<transport::RecordView> RendezvousCall::receive(uint64_t deadline_ns) {
    for (;;) {
        auto next = link_->next();
        if (!next) {
            return Error(Errc::kProtocol,
                         fmt::format("rendezvous: {} answered, but not as rank 0 of a Weir job of "
                                     "this version: {}; choose another port, or use the same "
                                     "version of Weir everywhere",
                                     at(), next.error().text()));
        }
        if (next->has_value()) return **next;
        const int slice_ms = poll_slice_ms(clock_, deadline_ns);
        if (slice_ms == 0) return Error(Errc::kDeadline, fmt::format("{} does not answer", at()));
        pollfd entry{link_->fd(), static_cast<short>(POLLIN | (link_->has_output() ? POLLOUT : 0)),
                     0};
        const int ready = ::poll(&entry, 1, slice_ms);
        if (ready <= 0) continue;
        Status status;
        if ((entry.revents & POLLOUT) != 0) status = link_->flush();
        if (status && (entry.revents & ~POLLOUT) != 0) status = link_->fill();
        if (!status) {
            return Error(
                Errc::kPeerLost,
                fmt::format("rendezvous: rank 0 at {}: {}; see the output of rank 0 for the reason",
                            at(), status.error().text()),
                status.error().os_error());
        }
    }
}

}  // namespace weir::boot

// SPDX-License-Identifier: Apache-2.0
/// \file
/// VerbsEndpoint: how connections come to be. What others begin is taken in endpoint_accept.cc.

#include <cerrno>
#include <cstring>

#include <fmt/core.h>
#include <sys/epoll.h>

#include "lib/base/log.h"
#include "transport/verbs/endpoint.h"
#include "transport/verbs/endpoint_limits.h"
#include "transport/verbs/queue_pair.h"

namespace weir::transport::verbs {

namespace {

using State = Connection::State;

uint32_t random_packet_number() {
    const auto bytes = random_bytes();
    uint32_t number = 0;
    std::memcpy(&number, bytes.data(), sizeof(number));
    return number & 0xffffff;
}

}  // namespace

Result<ConnectionId> VerbsEndpoint::connect(std::string_view address) {
    if (!address.starts_with(kScheme)) {
        return Error(Errc::kUnavailable,
                     fmt::format("'{}' is no verbs address", address.substr(0, 80)));
    }
    WEIR_ASSIGN(const SocketAddress to, SocketAddress::parse(address.substr(kScheme.size())));
    if (connection_count_ >= options_.connections_max) {
        return Error(Errc::kBusy,
                     fmt::format("this endpoint has {} connections, its limit", connection_count_));
    }
    Connection& c = add_connection(Side::kConnecting);
    c.announced = true;
    c.target = to;
    c.peer_name = to.text();
    set_deadline(c, device_.options().handshake_ms_max);
    dial(c);
    return c.id;
}

void VerbsEndpoint::dial(Connection& c) {
    Result<Socket> socket = Socket::connect(c.target, device_.options().silence_ms_max);
    if (!socket) {
        fail(c, Errc::kPeerLost, socket.error().message());
        return;
    }
    c.socket = std::move(*socket);
    watch_socket(c, true);
}

/// The other side has no place for us now. If it is gone, the kernel says so this time.
void VerbsEndpoint::dial_again(Connection& c) {
    log(LogLevel::kDebug, "verbs: {} has no place for a connection now; it is tried again",
        c.peer_name);
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, c.socket.fd(), nullptr);
    c.socket.close();
    c.tcp_connected = false;
    c.handshake = Handshake(c.side, device_.options().secret, random_bytes());
    dial(c);
}

void VerbsEndpoint::watch_socket(Connection& c, bool wants_output) {
    epoll_event event{};
    event.events = EPOLLIN | (wants_output ? static_cast<uint32_t>(EPOLLOUT) : 0U);
    event.data.u64 = c.id;
    c.wants_output = wants_output;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, c.socket.fd(), &event) != 0 &&
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, c.socket.fd(), &event) != 0) {
        fail(c, Errc::kIo, Error(Errc::kIo, "cannot watch its socket", errno).message());
    }
}

void VerbsEndpoint::serve_socket(Connection& c) {
    if (c.state == State::kDraining) return;  // since epoll spoke of it
    if (!c.tcp_connected) {
        if (const int code = c.socket.failure(); code != 0) {
            fail(c, Errc::kPeerLost, Error(Errc::kPeerLost, "cannot connect", code).message());
            return;
        }
        c.tcp_connected = true;
    }
    send_output(c);
    while (c.state != State::kDraining) {
        std::array<std::byte, 512> bytes;
        size_t count = 0;
        const auto got = c.socket.receive(
            std::span(bytes).first(std::min(bytes.size(), c.handshake.room())), count);
        if (got == Socket::Got::kNothing) break;
        if (got == Socket::Got::kEnd) {
            take_hang_up(c);
            return;
        }
        c.handshake.append(std::span(bytes).first(count));
        advance_handshake(c);
        if (!c.tcp_connected) return;  // it begins anew
    }
}

void VerbsEndpoint::send_output(Connection& c) {
    if (!c.socket.send(c.handshake.output())) return;  // reading will say the same
    const bool wants_output = !c.handshake.output().empty();
    if (wants_output != c.wants_output) watch_socket(c, wants_output);
}

void VerbsEndpoint::take_hang_up(Connection& c) {
    switch (c.state) {
        case State::kHandshake:
            if (c.side == Side::kAccepting) ++counters_.refused;
            fail(c, Errc::kPeerLost, "it closed the connection in the middle of the handshake");
            return;
        case State::kOpen: fail(c, Errc::kPeerLost, "it is gone without a goodbye"); return;
        case State::kClosing:
            if (c.bye_received || c.fence_done) {
                drain(c, Errc::kOk);
            } else {
                fail(c, Errc::kPeerLost, "it went before it had everything that we sent");
            }
            return;
        case State::kDraining: return;
    }
}

void VerbsEndpoint::advance_handshake(Connection& c) {
    while (c.state != State::kDraining) {
        const Result<Handshake::Step> step = c.handshake.next();
        if (!step && c.side == Side::kConnecting && step.code() == Errc::kDeadline) {
            dial_again(c);
            return;
        }
        if (!step) {
            ++counters_.refused;
            // A stranger learns no more than that. An error from its side needs no answer.
            if (c.side == Side::kAccepting && step.code() == Errc::kRefused) {
                c.handshake.refuse(Errc::kRefused, "wrong secret");
            }
            fail(c, step.code(), step.error().text());
            return;
        }
        if (*step == Handshake::Step::kWait) break;
        if (const Status taken = take_step(c, *step); !taken) {
            refuse(c, taken.error());
            return;
        }
    }
    if (c.state != State::kDraining) send_output(c);
}

Status VerbsEndpoint::take_step(Connection& c, Handshake::Step step) {
    switch (step) {
        case Handshake::Step::kWait: return {};
        case Handshake::Step::kMakeClaim:
            if (c.qp == nullptr) {  // dialled again, it has one
                WEIR_TRY(make_claim(c));
                if (device_.options().connect_by == ConnectBy::kRdmaCm) WEIR_TRY(ask_for_cm(c));
            }
            c.handshake.claim(c.own);
            return {};
        case Handshake::Step::kProven: return take_proof(c);
        case Handshake::Step::kOpen:
            if (!c.qp_up) {
                return Error(Errc::kProtocol, "it is ready though no queue pair is up");
            }
            // Its first message may have been faster than its "ready".
            if (c.state == State::kHandshake) become_open(c);
            return {};
        case Handshake::Step::kBye:
            c.bye_received = true;
            if (c.state == State::kHandshake) become_open(c);
            if (c.state == State::kOpen) {
                c.state = State::kClosing;
                set_deadline(c, kCloseMs);
            }
            advance_close(c);
            return {};
    }
    return {};
}

/// Takes a share of the queues and makes a queue pair.
Status VerbsEndpoint::make_claim(Connection& c) {
    const Hardware& hardware = device_.hardware();
    if (connection_count_ - half_open_ >= options_.connections_max) {
        return Error(Errc::kBusy, fmt::format("{} has {} connections, its limit", address_,
                                              connection_count_ - half_open_));
    }
    const auto share =
        capacity_->admit({options_.messages_in_flight, send_depth(options_, hardware)});
    if (!share) {
        return Error(
            Errc::kBusy,
            fmt::format("{} has no room left in its receive queue for another connection "
                        "({} messages are promised to {} connections): use more shards, or "
                        "fewer messages in flight",
                        address_, granted_, queue_pairs_.size()));
    }
    c.share = *share;
    granted_ += share->window;
    WEIR_TRY(receives_->serve_windows(granted_));
    WEIR_ASSIGN(c.qp,
                make_queue_pair(hardware, {this, cq_.get(), receives_->get(), share->send_depth}));
    RegisteredPages ring;
    if (spare_rings_.empty()) {
        WEIR_ASSIGN(ring, RegisteredPages::make(hardware.pd.get(), send_ring_bytes(options_)));
    } else {
        ring = std::move(spare_rings_.back());
        spare_rings_.pop_back();
    }
    c.sends.emplace(c.qp.get(), std::move(ring), share->send_depth, hardware.inline_bytes_max,
                    slot_of(c));
    queue_pairs_[c.qp->qp_num] = &c;
    c.own = describe(hardware, *c.qp, random_packet_number());
    c.own.window = share->window;
    c.own.message_bytes_max = options_.message_bytes_max;
    return {};
}

Status VerbsEndpoint::check_peer(const Connection& c) const {
    const bool ethernet = device_.hardware().is_ethernet();
    if (c.peer.link_layer != (ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND)) {
        return Error(Errc::kInvalidArgument,
                     "one side is on Ethernet (RoCE) and the other on InfiniBand");
    }
    if (c.peer.message_bytes_max != options_.message_bytes_max) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("one side wants messages of {} bytes at most and the other of {}",
                                 options_.message_bytes_max, c.peer.message_bytes_max));
    }
    return {};
}

Status VerbsEndpoint::take_proof(Connection& c) {
    c.peer = c.handshake.peer();
    WEIR_TRY(check_peer(c));
    if (c.side == Side::kConnecting) {
        if (device_.options().connect_by == ConnectBy::kRdmaCm) return begin_cm(c);
        WEIR_TRY(bring_up_queue_pair(c));
        c.handshake.ready();
        become_open(c);
        return {};
    }
    WEIR_TRY(make_claim(c));
    if (c.peer.cm_token != CmToken{}) {
        WEIR_TRY(offer_cm(c));
    } else {
        WEIR_TRY(bring_up_queue_pair(c));
    }
    c.handshake.claim(c.own);
    return {};
}

Status VerbsEndpoint::bring_up_queue_pair(Connection& c) {
    const DeviceOptions& options = device_.options();
    WEIR_TRY(bring_up(device_.hardware(), c.qp.get(), c.own, c.peer,
                      {options.retry_timeout, options.retry_count}));
    note_up(c);
    return {};
}

void VerbsEndpoint::note_up(Connection& c) {
    c.qp_up = true;
    c.credits = Credits(c.peer.window, c.share.window);
}

void VerbsEndpoint::become_open(Connection& c) {
    clear_deadline(c);
    c.state = State::kOpen;
    c.announced = true;
    Completion completion;
    completion.event = c.side == Side::kConnecting ? Event::kConnected : Event::kAccepted;
    completion.connection = c.id;
    emit(completion);
    if (c.side == Side::kAccepting) {
        --half_open_;
        listen_again();
    }
}

/// The peer is one of us, but cannot be served.
void VerbsEndpoint::refuse(Connection& c, const Error& error) {
    c.handshake.refuse(error.code(), error.message());
    fail(c, error.code(), error.message());
}

}  // namespace weir::transport::verbs

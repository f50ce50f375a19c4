// SPDX-License-Identifier: Apache-2.0
/// \file
/// VerbsEndpoint: queue pairs that librdmacm brings up, once the side channel has proved both
/// sides. Who connects shows a token there that it made for this; it travelled in its claim.

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/core.h>
#include <sys/epoll.h>

#include "transport/verbs/endpoint.h"
#include "transport/verbs/endpoint_limits.h"
#include "transport/verbs/queue_pair.h"

namespace weir::transport::verbs {

namespace {

constexpr CmToken kNoToken{};

CmToken make_token() {
    const auto bytes = random_bytes();
    CmToken token;
    std::copy_n(bytes.begin(), token.size(), token.begin());
    return token;
}

/// Where the peer's device is reached by IP: its GID if that is an IPv4 address, else where its
/// side channel is.
Result<SocketAddress> address_of(const Connection& c) {
    SocketAddress to = SocketAddress::peer(c.socket.fd());
    ibv_gid gid{};
    std::memcpy(gid.raw, c.peer.gid.data(), c.peer.gid.size());
    if (is_ipv4(gid)) {
        const std::string text = text_of(gid);
        WEIR_ASSIGN(to, SocketAddress::parse_host(text.substr(text.rfind(':') + 1), 0));
    }
    to.set_port(c.peer.cm_port);
    return to;
}

}  // namespace

Status VerbsEndpoint::need_cm() {
    if (cm_ != nullptr) return {};
    WEIR_ASSIGN(std::unique_ptr<CmAgent> agent, CmAgent::make(device_.hardware().context->device));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kWatchCm;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, agent->fd(), &event) != 0) {
        return Error(Errc::kIo, "cannot watch rdma_cm's events", errno);
    }
    cm_ = std::move(agent);
    return {};
}

/// Connecting: the peer shall expect us there.
Status VerbsEndpoint::ask_for_cm(Connection& c) {
    WEIR_TRY(need_cm());
    c.own.cm_token = make_token();
    return {};
}

/// Accepting: says where it may come.
Status VerbsEndpoint::offer_cm(Connection& c) {
    WEIR_TRY(need_cm());
    WEIR_ASSIGN(c.own.cm_port, cm_->listen());
    return {};
}

CmEnds VerbsEndpoint::cm_ends(const Connection& c) const {
    CmEnds ends;
    ends.qp = c.qp.get();
    ends.read_depth = static_cast<uint8_t>(c.own.read_depth);
    ends.initiator_depth = initiator_depth(device_.hardware(), c.peer);
    ends.retry_count = device_.options().retry_count;
    ends.retry_timeout = device_.options().retry_timeout;
    ends.service_level = device_.hardware().service_level;
    ends.traffic_class = device_.hardware().traffic_class;
    ends.resolve_ms_max = device_.options().handshake_ms_max;
    return ends;
}

Status VerbsEndpoint::begin_cm(Connection& c) {
    if (c.peer.cm_port == 0) {
        return Error(Errc::kUnavailable, "the peer has no rdma_cm: connect by TCP");
    }
    WEIR_ASSIGN(const SocketAddress to, address_of(c));
    return cm_->connect(c.id, to, c.own.cm_token, cm_ends(c));
}

void VerbsEndpoint::take_cm_events() {
    for (const CmEvent& event : cm_->poll()) {
        if (event.what == CmEvent::What::kRequest) {
            take_cm_request(event);
            continue;
        }
        Connection* const c = find(event.connection);
        if (c == nullptr || c->state != Connection::State::kHandshake) continue;
        if (event.what == CmEvent::What::kFailed) {
            refuse(*c, {Errc::kPeerLost, event.text});
        } else if (const Status up = cm_->finish(c->id); !up) {
            refuse(*c, up.error());
        } else {
            note_up(*c);
            c->handshake.ready();
            become_open(*c);
            send_output(*c);
        }
    }
}

void VerbsEndpoint::take_cm_request(const CmEvent& event) {
    for (const auto& slot : slots_) {
        if (slot == nullptr || slot->state != Connection::State::kHandshake ||
            slot->side != Side::kAccepting || slot->qp == nullptr || slot->qp_up) {
            continue;
        }
        if (slot->peer.cm_token == kNoToken || slot->peer.cm_token != event.token ||
            slot->peer.queue_pair != event.queue_pair) {
            continue;
        }
        if (const Status up = cm_->accept(event.request, slot->id, cm_ends(*slot)); !up) {
            refuse(*slot, up.error());
        } else {
            note_up(*slot);
        }
        return;
    }
    ++counters_.refused;
    cm_->reject(event.request);
}

}  // namespace weir::transport::verbs

// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/setup/cm_way.h"

#include <algorithm>
#include <cstring>
#include <string>

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

/// The IP address of the peer's device: its GID if that is an IPv4 address, else the address of
/// its side channel.
Result<SocketAddress> address_of(const VerbsConnection& c) {
    SocketAddress to = c.side_channel.peer();
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

Status CmWay::need_agent() {
    if (agent_ != nullptr) return {};
    WEIR_ASSIGN(std::unique_ptr<CmAgent> agent, CmAgent::make(device_.hardware().context->device));
    WEIR_TRY(watcher_.watch(agent->fd(), name_, Watcher::For::kInput));
    agent_ = std::move(agent);
    return {};
}

Status CmWay::prepare(VerbsConnection& c) {
    WEIR_TRY(need_agent());
    c.own.cm_token = make_token();
    return {};
}

Status CmWay::offer(VerbsConnection& c) {
    WEIR_TRY(need_agent());
    WEIR_ASSIGN(c.own.cm_port, agent_->listen());
    return {};
}

Status CmWay::begin(const VerbsConnection& c) {
    if (c.peer.cm_port == 0) {
        return Error(
            Errc::kUnavailable,
            "the peer does not use rdma_cm: set up connections by TCP, or by rdma_cm everywhere");
    }
    WEIR_ASSIGN(const SocketAddress to, address_of(c));
    return agent_->connect(c.id, to, c.own.cm_token, ends_of(c));
}

Status CmWay::accept(const CmEvent& request, const VerbsConnection& c) {
    return agent_->accept(request.request, c.id, ends_of(c));
}

bool CmWay::is_meant(const VerbsConnection& c, const CmEvent& request) noexcept {
    return c.state == VerbsConnection::State::kJoining && c.side == Side::kAccepting &&
           c.queue_pair == QueuePairState::kMade && c.peer.cm_token != kNoToken &&
           c.peer.cm_token == request.token && c.peer.queue_pair == request.queue_pair;
}

CmEnds CmWay::ends_of(const VerbsConnection& c) const {
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

}  // namespace weir::transport::verbs

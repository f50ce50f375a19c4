// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/setup/cm.h"

#include <cerrno>
#include <cstring>
#include <unordered_map>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <rdma/rdma_cma.h>

#include "transport/verbs/queue_pair.h"

namespace weir::transport::verbs {

namespace {

constexpr int kListenBacklog = 1024;

struct DestroyChannel {
    void operator()(rdma_event_channel* channel) const noexcept {
        rdma_destroy_event_channel(channel);
    }
};

struct DestroyId {
    void operator()(rdma_cm_id* id) const noexcept { rdma_destroy_id(id); }
};

using IdPtr = std::unique_ptr<rdma_cm_id, DestroyId>;

Error cannot(const char* step, int code) {
    return {Errc::kIo, fmt::format("rdma_cm failed to {}", step), code};
}

/// One queue pair that is being connected.
struct Path {
    ConnectionId connection = 0;
    IdPtr id;
    CmToken token{};
    CmEnds ends;
};

/// rdma_cm opens devices of its own, so it cannot own our queue pair. It says which attributes to
/// set, and we set them.
Status move_to(const Path& path, ibv_qp_state state) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    int mask = 0;
    if (rdma_init_qp_attr(path.id.get(), &attr, &mask) != 0) {
        return cannot("tell a queue pair's attributes", errno);
    }
    if (state == IBV_QPS_RTS) attr.timeout = path.ends.retry_timeout;
    if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) attr.min_rnr_timer = kNotReadyTimer;
    if ((mask & IBV_QP_AV) != 0) {
        if (path.ends.service_level != 0) attr.ah_attr.sl = path.ends.service_level;
        if (path.ends.traffic_class != 0 && attr.ah_attr.is_global != 0) {
            attr.ah_attr.grh.traffic_class = path.ends.traffic_class;
        }
    }
    if (const int code = ibv_modify_qp(path.ends.qp, &attr, mask); code != 0) {
        return cannot(
            state == IBV_QPS_RTR ? "take a queue pair to RTR" : "take a queue pair to RTS", code);
    }
    return {};
}

rdma_conn_param parameters(const CmEnds& ends) {
    rdma_conn_param param{};
    param.responder_resources = ends.read_depth;
    param.initiator_depth = ends.initiator_depth;
    param.retry_count = ends.retry_count;
    param.rnr_retry_count = kNotReadyRetries;
    param.srq = 1;
    param.qp_num = ends.qp->qp_num;
    return param;
}

}  // namespace

struct CmAgent::State {
    std::string device;
    std::unique_ptr<rdma_event_channel, DestroyChannel> channel;
    IdPtr listener;
    std::unordered_map<ConnectionId, Path> paths;
    std::unordered_map<uint64_t, IdPtr> requests;
    uint64_t last_request = 0;

    Status go_on(ConnectionId connection, rdma_cm_event_type event);
    CmEvent take_request(rdma_cm_event& event);
};

Result<std::unique_ptr<CmAgent>> CmAgent::make(const ibv_device* device) {
    auto state = std::make_unique<State>();
    state->device = device->name;
    state->channel.reset(rdma_create_event_channel());
    if (state->channel == nullptr) {
        return Error(Errc::kUnavailable,
                     "rdma_cm does not work here: load the kernel module rdma_ucm, or connect by "
                     "TCP",
                     errno);
    }
    const int flags = ::fcntl(state->channel->fd, F_GETFL);
    if (flags < 0 || ::fcntl(state->channel->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        return cannot("watch its events", errno);
    }
    return std::unique_ptr<CmAgent>(new CmAgent(std::move(state)));
}

CmAgent::CmAgent(std::unique_ptr<State> state) : state_(std::move(state)) {}

CmAgent::~CmAgent() = default;

int CmAgent::fd() const noexcept {
    return state_->channel->fd;
}

Result<uint16_t> CmAgent::listen() {
    if (state_->listener == nullptr) {
        rdma_cm_id* id = nullptr;
        if (rdma_create_id(state_->channel.get(), &id, nullptr, RDMA_PS_TCP) != 0) {
            return cannot("make a listener", errno);
        }
        IdPtr listener(id);
        WEIR_ASSIGN(SocketAddress any, SocketAddress::parse_host("::", 0));
        // librdmacm does not change the address; its parameter only lacks the const.
        if (rdma_bind_addr(id, const_cast<sockaddr*>(any.raw())) != 0 ||
            rdma_listen(id, kListenBacklog) != 0) {
            return cannot("listen", errno);
        }
        state_->listener = std::move(listener);
    }
    return ntohs(rdma_get_src_port(state_->listener.get()));
}

Status CmAgent::connect(ConnectionId connection, const SocketAddress& to, const CmToken& token,
                        const CmEnds& ends) {
    rdma_cm_id* id = nullptr;
    if (rdma_create_id(state_->channel.get(), &id, nullptr, RDMA_PS_TCP) != 0) {
        return cannot("begin a connection", errno);
    }
    Path& path = state_->paths[connection] = {connection, IdPtr(id), token, ends};
    id->context = &path;  // the map keeps it in place until forget()
    // The route depends on the type of service too, so rdma_cm must know it before it resolves.
    uint8_t service = ends.traffic_class;
    if (service != 0 &&
        rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &service, sizeof(service)) != 0) {
        return cannot("set the traffic class", errno);
    }
    if (rdma_resolve_addr(path.id.get(), nullptr, const_cast<sockaddr*>(to.raw()),
                          static_cast<int>(ends.resolve_ms_max)) != 0) {
        return cannot("resolve an address", errno);
    }
    return {};
}

Status CmAgent::finish(ConnectionId connection) {
    const auto found = state_->paths.find(connection);
    if (found == state_->paths.end()) return cannot("complete a connection that was not begun", 0);
    WEIR_TRY(move_to(found->second, IBV_QPS_RTR));
    WEIR_TRY(move_to(found->second, IBV_QPS_RTS));
    if (rdma_establish(found->second.id.get()) != 0) return cannot("confirm", errno);
    return {};
}

Status CmAgent::accept(uint64_t request, ConnectionId connection, const CmEnds& ends) {
    const auto found = state_->requests.find(request);
    if (found == state_->requests.end())
        return cannot("accept a connection that no peer asked for", 0);
    Path& path = state_->paths[connection] = {connection, std::move(found->second), {}, ends};
    state_->requests.erase(found);
    path.id->context = &path;
    WEIR_TRY(move_to(path, IBV_QPS_RTR));
    WEIR_TRY(move_to(path, IBV_QPS_RTS));
    rdma_conn_param param = parameters(ends);
    if (rdma_accept(path.id.get(), &param) != 0) return cannot("accept", errno);
    return {};
}

void CmAgent::reject(uint64_t request) {
    const auto found = state_->requests.find(request);
    if (found == state_->requests.end()) return;
    // If this fails, the peer's time limit ends its attempt.
    static_cast<void>(rdma_reject(found->second.get(), nullptr, 0));
    state_->requests.erase(found);
}

void CmAgent::forget(ConnectionId connection) {
    state_->paths.erase(connection);
}

/// Goes on with a connection that this side began.
Status CmAgent::State::go_on(ConnectionId connection, rdma_cm_event_type event) {
    const auto found = paths.find(connection);
    if (found == paths.end()) return {};
    Path& path = found->second;
    if (event == RDMA_CM_EVENT_ADDR_RESOLVED) {
        if (device != path.id->verbs->device->name) {
            return Error(Errc::kIo, fmt::format("rdma_cm would go by {}, not by {}",
                                                path.id->verbs->device->name, device));
        }
        if (rdma_resolve_route(path.id.get(), static_cast<int>(path.ends.resolve_ms_max)) != 0) {
            return cannot("resolve a route", errno);
        }
    } else if (event == RDMA_CM_EVENT_ROUTE_RESOLVED) {
        rdma_conn_param param = parameters(path.ends);
        param.private_data = path.token.data();
        param.private_data_len = static_cast<uint8_t>(path.token.size());
        if (rdma_connect(path.id.get(), &param) != 0) return cannot("ask for a connection", errno);
    }
    return {};
}

CmEvent CmAgent::State::take_request(rdma_cm_event& event) {
    CmEvent request;
    request.what = CmEvent::What::kRequest;
    request.request = ++last_request;
    request.queue_pair = event.param.conn.qp_num;
    if (event.param.conn.private_data != nullptr &&
        event.param.conn.private_data_len >= request.token.size()) {
        std::memcpy(request.token.data(), event.param.conn.private_data, request.token.size());
    }
    requests.emplace(request.request, IdPtr(event.id));
    return request;
}

std::vector<CmEvent> CmAgent::poll() {
    std::vector<CmEvent> events;
    rdma_cm_event* event = nullptr;
    while (rdma_get_cm_event(state_->channel.get(), &event) == 0) {
        const auto* const path = static_cast<const Path*>(event->id->context);
        const ConnectionId connection = path != nullptr ? path->connection : 0;
        const rdma_cm_event_type type = event->event;
        CmEvent mine;
        mine.connection = connection;
        bool report = true;
        switch (type) {
            case RDMA_CM_EVENT_CONNECT_REQUEST: mine = state_->take_request(*event); break;
            case RDMA_CM_EVENT_CONNECT_RESPONSE: mine.what = CmEvent::What::kAnswered; break;
            case RDMA_CM_EVENT_ADDR_RESOLVED:
            case RDMA_CM_EVENT_ROUTE_RESOLVED: {
                const Status status = state_->go_on(connection, type);
                report = !status;
                if (report) mine.text = status.error().message();
                break;
            }
            case RDMA_CM_EVENT_ADDR_ERROR:
            case RDMA_CM_EVENT_ROUTE_ERROR:
            case RDMA_CM_EVENT_CONNECT_ERROR:
            case RDMA_CM_EVENT_UNREACHABLE:
            case RDMA_CM_EVENT_REJECTED:
                mine.text = fmt::format("rdma_cm: {}", rdma_event_str(type));
                break;
            default: report = false;  // what happens later is seen on the side channel
        }
        rdma_ack_cm_event(event);
        if (report) events.push_back(std::move(mine));
    }
    return events;
}

}  // namespace weir::transport::verbs

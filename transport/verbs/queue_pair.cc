// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/queue_pair.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/core.h>

namespace weir::transport::verbs {

namespace {

constexpr uint8_t kHopLimit = 64;
constexpr int kReadDepthMax = 128;
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

Error cannot(const Hardware& hardware, const char* step, int code) {
    return {Errc::kIo, fmt::format("{} cannot take a queue pair to {}", hardware.name, step), code};
}

}  // namespace

ibv_ah_attr route_to(const Hardware& hardware, const Claim& peer) noexcept {
    ibv_ah_attr route{};
    route.port_num = hardware.port;
    route.dlid = peer.lid;
    route.sl = hardware.service_level;
    const bool other_subnet =
        std::memcmp(peer.gid.data(), hardware.gid.gid.raw, sizeof(uint64_t)) != 0;
    const bool demanded = (hardware.port_attr.flags & IBV_QPF_GRH_REQUIRED) != 0;
    if (hardware.is_ethernet() || other_subnet || demanded || hardware.traffic_class != 0) {
        route.is_global = 1;
        std::memcpy(route.grh.dgid.raw, peer.gid.data(), peer.gid.size());
        route.grh.sgid_index = static_cast<uint8_t>(hardware.gid.gid_index);
        route.grh.hop_limit = kHopLimit;
        route.grh.traffic_class = hardware.traffic_class;
    }
    return route;
}

uint8_t read_depth(const Hardware& hardware) noexcept {
    return static_cast<uint8_t>(std::clamp(hardware.limits.max_qp_rd_atom, 0, kReadDepthMax));
}

uint8_t initiator_depth(const Hardware& hardware, const Claim& peer) noexcept {
    const int ours = std::clamp(hardware.limits.max_qp_init_rd_atom, 0, kReadDepthMax);
    return static_cast<uint8_t>(std::min(static_cast<uint32_t>(ours), peer.read_depth));
}

Result<QpPtr> make_queue_pair(const Hardware& hardware, const QueuePairOptions& options) {
    ibv_qp_init_attr init{};
    init.qp_context = options.owner;
    init.send_cq = options.cq;
    init.recv_cq = options.cq;
    init.srq = options.srq;
    init.cap.max_send_wr = options.send_depth;
    init.cap.max_send_sge = 1;
    init.cap.max_inline_data = hardware.inline_bytes_max;
    init.qp_type = IBV_QPT_RC;
    QpPtr qp(ibv_create_qp(hardware.pd.get(), &init));
    if (qp == nullptr) {
        return Error(
            Errc::kNoMemory,
            fmt::format(
                "{} has no more queue pairs (it has {} in all); use fewer processes on this host",
                hardware.name, hardware.limits.max_qp),
            errno);
    }
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = hardware.port;
    attr.pkey_index = hardware.pkey_index;
    attr.qp_access_flags = kAccess;
    const int code = ibv_modify_qp(
        qp.get(), &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (code != 0) return cannot(hardware, "INIT", code);
    return qp;
}

Claim describe(const Hardware& hardware, const ibv_qp& qp, uint32_t packet_number) {
    Claim claim;
    claim.queue_pair = qp.qp_num;
    claim.packet_number = packet_number;
    claim.lid = hardware.port_attr.lid;
    claim.mtu = static_cast<uint8_t>(hardware.port_attr.active_mtu);
    claim.link_layer = hardware.is_ethernet() ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
    std::memcpy(claim.gid.data(), hardware.gid.gid.raw, claim.gid.size());
    claim.read_depth = read_depth(hardware);
    return claim;
}

Status bring_up(const Hardware& hardware, ibv_qp* qp, const Claim& own, const Claim& peer,
                const RetryOptions& retry) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = static_cast<ibv_mtu>(std::min(own.mtu, peer.mtu));
    attr.dest_qp_num = peer.queue_pair;
    attr.rq_psn = peer.packet_number;
    attr.max_dest_rd_atomic = static_cast<uint8_t>(own.read_depth);
    attr.min_rnr_timer = kNotReadyTimer;
    attr.ah_attr = route_to(hardware, peer);
    int code = ibv_modify_qp(qp, &attr,
                             IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (code != 0) return cannot(hardware, "RTR", code);

    attr = {};
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = own.packet_number;
    attr.timeout = retry.timeout;
    attr.retry_cnt = retry.count;
    attr.rnr_retry = kNotReadyRetries;
    attr.max_rd_atomic = initiator_depth(hardware, peer);
    code = ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                             IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
    if (code != 0) return cannot(hardware, "RTS", code);
    return {};
}

void break_off(ibv_qp* qp) noexcept {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    // If this fails, the queue pair is in ERR already, or the device is gone. The wait for the
    // flushed completions has a time limit.
    static_cast<void>(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
}

}  // namespace weir::transport::verbs

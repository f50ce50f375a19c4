// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <net/if.h>

#include "transport/verbs/hardware.h"
#include "transport/verbs/verbs.h"

namespace weir::transport::verbs {

namespace {

std::string type_name(uint32_t gid_type) {
    switch (gid_type) {
        case IBV_GID_TYPE_IB: return "IB";
        case IBV_GID_TYPE_ROCE_V1: return "RoCE v1";
        case IBV_GID_TYPE_ROCE_V2: return "RoCE v2";
        default: return "unknown";
    }
}

PortInfo describe_port(ibv_context* context, uint8_t number) {
    PortInfo port;
    port.number = number;
    ibv_port_attr attr{};
    if (ibv_query_port(context, number, &attr) != 0) {
        port.state = "does not answer";
        return port;
    }
    port.active = attr.state == IBV_PORT_ACTIVE;
    port.state = ibv_port_state_str(attr.state);
    port.link_layer = attr.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand";
    port.mtu_bytes = 128U << attr.active_mtu;
    port.operation_bytes_max = attr.max_msg_sz;
    for (const ibv_gid_entry& entry : gids_of(context, number)) {
        char interface[IF_NAMESIZE] = {};
        if (entry.ndev_ifindex != 0) ::if_indextoname(entry.ndev_ifindex, interface);
        port.gids.push_back(
            {entry.gid_index, text_of(entry.gid), type_name(entry.gid_type), interface});
    }
    for (int index = 0; index < attr.pkey_tbl_len; ++index) {
        __be16 key = 0;
        if (ibv_query_pkey(context, number, index, &key) != 0) key = 0;
        port.partition_keys.push_back(ntohs(key));
    }
    while (!port.partition_keys.empty() && port.partition_keys.back() == 0)
        port.partition_keys.pop_back();
    return port;
}

DeviceInfo describe(ibv_device* device) {
    DeviceInfo info;
    info.name = ibv_get_device_name(device);
    const Result<ContextPtr> opened = open_context(device);
    if (!opened) {
        info.why_not = opened.error().message();
        return info;
    }
    ibv_context* const context = opened.value().get();
    ibv_device_attr limits{};
    if (const int code = ibv_query_device(context, &limits); code != 0) {
        info.why_not = Error(Errc::kUnavailable, info.name + " does not answer", code).message();
        return info;
    }
    info.queue_pairs_max = static_cast<uint64_t>(limits.max_qp);
    info.queue_pair_requests_max = static_cast<uint64_t>(limits.max_qp_wr);
    info.shared_receive_queues_max = static_cast<uint64_t>(limits.max_srq);
    info.shared_receive_requests_max = static_cast<uint64_t>(limits.max_srq_wr);
    info.completion_queue_entries_max = static_cast<uint64_t>(limits.max_cqe);
    info.regions_max = static_cast<uint64_t>(limits.max_mr);
    info.region_bytes_max = limits.max_mr_size;
    info.reads_in_flight_max = static_cast<uint64_t>(limits.max_qp_rd_atom);
    bool active = false;
    for (uint8_t port = 1; port <= limits.phys_port_cnt; ++port) {
        info.ports.push_back(describe_port(context, port));
        active = active || info.ports.back().active;
    }
    if (const Status usable = check_usable(limits, device); !usable) {
        info.why_not = usable.error().text();
    } else if (!active) {
        info.why_not =
            info.name + " has no active port: check the cable or bring its network interface up";
    }
    return info;
}

}  // namespace

Result<std::vector<DeviceInfo>> list_devices() {
    WEIR_ASSIGN(const DeviceList list, DeviceList::get());
    std::vector<DeviceInfo> infos;
    for (ibv_device* const device : list.devices())
        infos.push_back(describe(device));
    return infos;
}

}  // namespace weir::transport::verbs

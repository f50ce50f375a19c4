// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/hardware.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include <arpa/inet.h>
#include <fmt/core.h>
#include <net/if.h>

#include "lib/base/log.h"
#include "transport/net/own_address.h"

namespace weir::transport::verbs {

namespace {

constexpr int kGidTries = 10;
constexpr std::chrono::milliseconds kGidPause{100};
/// The CPU copies inlined messages, and every entry of the send queue gets that much longer. More
/// than about two cache lines are not worth it.
constexpr uint32_t kInlineBytesMax = 128;

constexpr int kServiceLevelMost = 15;
constexpr int kEthernetPriorityMost = 7;

bool is_link_local(const ibv_gid& gid) noexcept {
    return gid.raw[0] == 0xfe && gid.raw[1] == 0x80;
}

/// Higher is better; 0: not to be chosen automatically.
int rank_of(const ibv_gid_entry& entry, bool ethernet) noexcept {
    if (!ethernet) return entry.gid_type == IBV_GID_TYPE_IB ? 1 : 0;
    if (entry.gid_type != IBV_GID_TYPE_ROCE_V2) return 0;
    if (is_ipv4(entry.gid)) return 3;
    return is_link_local(entry.gid) ? 1 : 2;
}

Result<ibv_gid_entry> choose_gid(const Hardware& hardware, int index) {
    const std::string place = fmt::format("{} port {}", hardware.name, hardware.port);
    ibv_gid_entry best{};
    int best_rank = 0;
    // A device that was just added gets its addresses a moment later.
    for (int attempt = 0; attempt < kGidTries; ++attempt) {
        if (attempt > 0) std::this_thread::sleep_for(kGidPause);
        for (const ibv_gid_entry& entry : gids_of(hardware.context.get(), hardware.port)) {
            if (index >= 0 && entry.gid_index == static_cast<uint32_t>(index)) return entry;
            const int rank = rank_of(entry, hardware.is_ethernet());
            if (index < 0 && rank > best_rank) {
                best_rank = rank;
                best = entry;
            }
        }
        if (best_rank == (hardware.is_ethernet() ? 3 : 1)) return best;
    }
    if (best_rank > 0) return best;
    if (index >= 0) {
        return Error(Errc::kNotFound,
                     fmt::format("{} has no GID {}; `weir info` lists what it has", place, index));
    }
    return Error(Errc::kUnavailable,
                 fmt::format("{} has no {} GID: give its network interface an IP address", place,
                             hardware.is_ethernet() ? "RoCE v2" : "InfiniBand"));
}

/// An address of a network interface, IPv4 if it has one.
Result<SocketAddress> address_of(const std::string& interface) {
    Result<SocketAddress> found = find_own_address(interface);
    if (found) return found;
    return Error(Errc::kUnavailable,
                 fmt::format("network interface {} is down, or has no IP address: give it one, or "
                             "set WEIR_BIND to an address at which other hosts reach this one",
                             interface));
}

/// The address at which other hosts reach this device: the GID itself, or an address of its
/// network interface.
Result<SocketAddress> local_address(const Hardware& hardware) {
    if (is_ipv4(hardware.gid.gid)) {
        const uint8_t* const raw = hardware.gid.gid.raw;
        return SocketAddress::parse_host(
            fmt::format("{}.{}.{}.{}", raw[12], raw[13], raw[14], raw[15]), 0);
    }
    char name[IF_NAMESIZE] = {};
    if (hardware.gid.ndev_ifindex != 0 &&
        ::if_indextoname(hardware.gid.ndev_ifindex, name) != nullptr) {
        return address_of(name);
    }
    // InfiniBand: take an address of the adapter's IP-over-InfiniBand interfaces.
    std::error_code none;
    const std::filesystem::path folder =
        std::filesystem::path(hardware.context->device->ibdev_path) / "device/net";
    for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
        if (auto address = address_of(entry.path().filename().string())) return address;
    }
    return Error(
        Errc::kUnavailable,
        fmt::format("cannot tell which IP address leads to {}: set WEIR_BIND to an address "
                    "at which other hosts reach this one",
                    hardware.name));
}

Status choose_port(Hardware& hardware, uint8_t wanted) {
    for (uint8_t port = 1; port <= hardware.limits.phys_port_cnt; ++port) {
        if (wanted != 0 && port != wanted) continue;
        if (ibv_query_port(hardware.context.get(), port, &hardware.port_attr) != 0) continue;
        hardware.port = port;
        if (hardware.port_attr.state == IBV_PORT_ACTIVE) return {};
    }
    if (hardware.port == 0) {
        return Error(Errc::kNotFound, fmt::format("{} has no port {}; `weir info` lists its ports",
                                                  hardware.name, wanted));
    }
    return Error(
        Errc::kUnavailable,
        fmt::format("{} has no active port ({} is {}): check the cable or bring its "
                    "network interface up",
                    hardware.name, hardware.port, ibv_port_state_str(hardware.port_attr.state)));
}

/// The bytes of inline data that the device accepts: asks for less until it agrees.
uint32_t probe_inline(const Hardware& hardware) {
    const CqPtr cq(ibv_create_cq(hardware.context.get(), 1, nullptr, nullptr, 0));
    if (cq == nullptr) return 0;
    for (uint32_t bytes = kInlineBytesMax; bytes >= 16; bytes /= 2) {
        ibv_qp_init_attr attr{};
        attr.send_cq = cq.get();
        attr.recv_cq = cq.get();
        attr.cap = {1, 1, 1, 1, bytes};
        attr.qp_type = IBV_QPT_RC;
        const QpPtr qp(ibv_create_qp(hardware.pd.get(), &attr));
        if (qp != nullptr) return std::min(attr.cap.max_inline_data, kInlineBytesMax);
    }
    return 0;
}

Result<Hardware> open_one(ibv_device* device, const DeviceOptions& options) {
    Hardware hardware;
    hardware.name = ibv_get_device_name(device);
    WEIR_ASSIGN(hardware.context, open_context(device));
    if (const int code = ibv_query_device(hardware.context.get(), &hardware.limits); code != 0) {
        return Error(Errc::kUnavailable,
                     fmt::format("{} does not answer; see `ibv_devinfo` and the kernel's log",
                                 hardware.name),
                     code);
    }
    WEIR_TRY(check_usable(hardware.limits, device));
    WEIR_TRY(choose_port(hardware, options.device_port));
    WEIR_TRY(check_fabric(hardware.port_attr,
                          fmt::format("{} port {}", hardware.name, hardware.port), options));
    hardware.service_level = options.service_level;
    hardware.traffic_class = options.traffic_class;
    hardware.pkey_index = options.pkey_index;
    WEIR_ASSIGN(hardware.gid, choose_gid(hardware, options.gid_index));
    if (options.bind_address.empty()) {
        WEIR_ASSIGN(hardware.local, local_address(hardware));
    } else if (auto local = local_address(hardware)) {
        hardware.local = *local;
    }
    hardware.pd.reset(ibv_alloc_pd(hardware.context.get()));
    if (hardware.pd == nullptr) {
        return Error(Errc::kUnavailable,
                     fmt::format("{} has no protection domain left; end other programs that use it",
                                 hardware.name),
                     errno);
    }
    hardware.inline_bytes_max = probe_inline(hardware);
    return hardware;
}

}  // namespace

Result<DeviceList> DeviceList::get() {
    DeviceList list;
    list.list_.reset(ibv_get_device_list(&list.count_));
    if (list.list_ != nullptr && list.count_ > 0) return list;
    return Error(
        Errc::kUnavailable,
        "this machine has no RDMA device (/sys/class/infiniband is missing or empty); "
        "where the kernel has soft-RoCE, `rdma link add rxe0 type rxe netdev IF` adds one");
}

Result<ContextPtr> open_context(ibv_device* device) {
    ContextPtr context(ibv_open_device(device));
    if (context != nullptr) return context;
    return Error(Errc::kUnavailable,
                 fmt::format("cannot open {}: check that /dev/infiniband/{} is there and that you "
                             "may read and write it",
                             ibv_get_device_name(device), device->dev_name),
                 errno);
}

std::vector<ibv_gid_entry> gids_of(ibv_context* context, uint8_t port) {
    std::vector<ibv_gid_entry> entries(1024);
    const ssize_t count = ibv_query_gid_table(context, entries.data(), entries.size(), 0);
    entries.resize(count < 0 ? 0 : static_cast<size_t>(count));
    std::erase_if(entries, [&](const ibv_gid_entry& entry) { return entry.port_num != port; });
    return entries;
}

std::string text_of(const ibv_gid& gid) {
    char text[INET6_ADDRSTRLEN] = {};
    return ::inet_ntop(AF_INET6, gid.raw, text, sizeof(text)) == nullptr ? "" : text;
}

bool is_ipv4(const ibv_gid& gid) noexcept {
    constexpr uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::memcmp(gid.raw, kPrefix, sizeof(kPrefix)) == 0;
}

Status check_fabric(const ibv_port_attr& port, std::string_view place,
                    const DeviceOptions& options) {
    const bool ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
    const int level_most = ethernet ? kEthernetPriorityMost : kServiceLevelMost;
    if (options.service_level > level_most) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("service level {} is too high for {}: {} has 0 to {}; set "
                                 "WEIR_RDMA_SERVICE_LEVEL to one of them",
                                 options.service_level, place, ethernet ? "Ethernet" : "InfiniBand",
                                 level_most));
    }
    if (options.pkey_index >= port.pkey_tbl_len) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("{} has {} entries in its table of partition keys, so there is no "
                                 "entry {}; set WEIR_RDMA_PKEY_INDEX to one that `weir info` lists",
                                 place, port.pkey_tbl_len, options.pkey_index));
    }
    if (options.pkey_index != 0 && options.connect_by == ConnectBy::kRdmaCm) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("rdma_cm takes the partition from the network interface, not from "
                                 "entry {} of {}: unset WEIR_RDMA_PKEY_INDEX, or connect by TCP",
                                 options.pkey_index, place));
    }
    return {};
}

Status check_usable(const ibv_device_attr& limits, ibv_device* device) {
    const char* const name = ibv_get_device_name(device);
    if (device->transport_type != IBV_TRANSPORT_IB) {
        return Error(Errc::kUnavailable,
                     fmt::format("{} is iWARP or of another kind without WRITE with immediate, "
                                 "which Weir needs",
                                 name));
    }
    if (limits.max_srq < 1 || limits.max_srq_wr < 64) {
        return Error(Errc::kUnavailable,
                     fmt::format("{} has no shared receive queues, which Weir needs", name));
    }
    return {};
}

/// Before Linux 5.10, pages that a device uses must not be copied at a fork(): libibverbs sees to that
/// for the queues of devices and for what is registered, if it is told so before anything else. With
/// later kernels this does nothing.
void protect_from_fork() {
    const int code = ibv_fork_init();
    if (code == 0) return;
    const Error error(Errc::kUnavailable,
                      "verbs: memory that the RDMA device uses cannot be protected from fork(), "
                      "perhaps because another library of this process uses RDMA already: do not "
                      "fork while the job runs, or set IBV_FORK_SAFE=1 before the start",
                      code);
    log(LogLevel::kWarning, "{}", error.message());
}

Result<Hardware> open_hardware(const DeviceOptions& options) {
    protect_from_fork();
    WEIR_ASSIGN(const DeviceList list, DeviceList::get());
    std::string reasons;
    for (ibv_device* const device : list.devices()) {
        const std::string name = ibv_get_device_name(device);
        if (!options.device.empty() && options.device != name) {
            reasons += fmt::format("{}{}", reasons.empty() ? "" : ", ", name);
            continue;
        }
        Result<Hardware> hardware = open_one(device, options);
        if (hardware || !options.device.empty()) return hardware;
        reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", hardware.error().message());
    }
    if (!options.device.empty()) {
        return Error(Errc::kNotFound,
                     fmt::format("there is no RDMA device {}; set WEIR_RDMA_DEVICE to one of: {}",
                                 options.device, reasons));
    }
    return Error(Errc::kUnavailable, fmt::format("no RDMA device can be used: {}", reasons));
}

}  // namespace weir::transport::verbs

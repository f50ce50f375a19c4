// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The verbs backend: InfiniBand, RoCE and soft-RoCE through libibverbs. Built only where
/// WEIR_HAVE_VERBS is 1; what it needs of <infiniband/...> stays in this folder.
///
/// Reliable connected queue pairs; one shared receive queue and one completion queue per endpoint;
/// SEND for messages, READ, WRITE and WRITE with immediate for memory. Two endpoints find each
/// other over TCP (see handshake.h); that TCP connection stays open as a sign of life.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "transport/net/half_open.h"
#include "transport/net/secret.h"
#include "transport/transport.h"

namespace weir::transport::verbs {

/// Who brings the queue pairs up once the side channel has proved both sides.
enum class ConnectBy : uint8_t {
    kTcp,     ///< we do, with the addresses that were exchanged there
    kRdmaCm,  ///< librdmacm does: for networks whose routes only it can resolve
};

struct DeviceOptions {
    std::string device;         ///< "mlx5_0"; empty: the first that can be used
    uint8_t device_port = 0;    ///< 0: the first active port
    int gid_index = -1;         ///< -1: RoCE v2 with an IPv4 address if there is one
    uint8_t service_level = 0;  ///< 0..15; on Ethernet the priority, 0..7
    uint8_t traffic_class = 0;  ///< of the global route header; with RoCE v2 the IP header's TOS
    uint16_t pkey_index = 0;    ///< entry of the port's partition keys; 0 with ConnectBy::kRdmaCm
    Secret secret{};            ///< of the job; both sides must have the same
    std::string bind_address;   ///< of the TCP side channel; empty: that of the RDMA device
    uint16_t port = 0;          ///< of the first endpoint, port + n of the n-th; 0: any
    ConnectBy connect_by = ConnectBy::kTcp;  ///< of connections that we begin
    const Clock* clock = nullptr;            ///< nullptr: the machine's; outlives the device

    /// Then a connection attempt ends, on both sides. Where all places for strangers are taken and
    /// somebody waits, see wanted_place_ns().
    uint32_t handshake_ms_max = kHandshakeTimeoutNs / kMillisecond;
    uint32_t silence_ms_max = 4000;  ///< a peer whose host does not answer for so long is lost
    uint8_t retry_timeout = 14;      ///< a packet is sent again after 4.096 us * 2^this
    uint8_t retry_count = 7;         ///< and so often before the peer is lost
};

/// Opens a device. Waits up to a second for a freshly added one to get its address.
/// Errors: kUnavailable (no device that can be used, and why), kNotFound (no such device, port or
/// GID), kInvalidArgument (bind address; service level or partition key that the port does not have)
[[nodiscard]] Result<std::unique_ptr<Device>> make_device(const DeviceOptions& options);

/// Registered memory that each end of a connection takes for messages, as long as an endpoint has
/// no more than a few hundred.
[[nodiscard]] uint64_t message_buffer_bytes(const EndpointOptions& options) noexcept;

struct GidInfo {
    uint32_t index = 0;
    std::string gid;        ///< "fe80::1", "::ffff:10.77.0.1"
    std::string type;       ///< "IB", "RoCE v1", "RoCE v2"
    std::string interface;  ///< network interface, empty for InfiniBand
};

struct PortInfo {
    uint8_t number = 0;
    bool active = false;
    std::string state;       ///< "active", "down", ...
    std::string link_layer;  ///< "Ethernet" or "InfiniBand"
    uint32_t mtu_bytes = 0;
    uint32_t operation_bytes_max = 0;
    std::vector<GidInfo> gids;
    std::vector<uint16_t> partition_keys;  ///< by DeviceOptions::pkey_index; 0: an empty entry
};

struct DeviceInfo {
    std::string name;
    std::string why_not;  ///< empty if it can be used; else why it cannot, and what to do
    std::vector<PortInfo> ports;
    uint64_t queue_pairs_max = 0;
    uint64_t queue_pair_requests_max = 0;
    uint64_t shared_receive_queues_max = 0;
    uint64_t shared_receive_requests_max = 0;
    uint64_t completion_queue_entries_max = 0;
    uint64_t regions_max = 0;
    uint64_t region_bytes_max = 0;
    uint64_t reads_in_flight_max = 0;  ///< per queue pair
};

/// All RDMA devices of this machine, for people to look at.
/// Errors: kUnavailable if there are none; the text says why and what to do
[[nodiscard]] Result<std::vector<DeviceInfo>> list_devices();

}  // namespace weir::transport::verbs

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The verbs backend: InfiniBand, RoCE and soft-RoCE through libibverbs. It is built only where
/// WEIR_HAVE_VERBS is 1. Only this folder includes <infiniband/...>.
///
/// It uses reliable connected queue pairs, with one shared receive queue and one completion queue
/// per endpoint; SEND for messages; READ, WRITE and WRITE with immediate for memory. Two
/// endpoints set a connection up over TCP (see handshake.h). That TCP connection stays open as a
/// sign of life.

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

/// How the queue pairs are connected once both sides have proved on the TCP side channel that
/// they know the secret.
enum class ConnectBy : uint8_t {
    kTcp,     ///< by the addresses that were exchanged over the side channel
    kRdmaCm,  ///< by librdmacm: for networks whose routes only it can resolve
};

struct DeviceOptions {
    std::string device;         ///< "mlx5_0"; empty: the first usable one
    uint8_t device_port = 0;    ///< 0: the first active port
    int gid_index = -1;         ///< -1: RoCE v2 with an IPv4 address if there is one
    uint8_t service_level = 0;  ///< 0..15; on Ethernet the priority, 0..7
    uint8_t traffic_class = 0;  ///< of the global route header; with RoCE v2 the IP header's TOS
    uint16_t pkey_index = 0;    ///< entry of the port's partition keys; 0 with ConnectBy::kRdmaCm
    Secret secret{};            ///< of the job; the same on both sides
    std::string bind_address;   ///< of the TCP side channel; empty: the RDMA device's address
    uint16_t port = 0;          ///< TCP: the first endpoint's, +1 for each later one; 0: any
    ConnectBy connect_by = ConnectBy::kTcp;  ///< for connections that this side begins
    const Clock* clock = nullptr;            ///< nullptr: the machine's; outlives the device

    /// A connection attempt fails after this time, on both sides. When all places for peers that
    /// have proved nothing are taken, one may lose its place sooner: see eviction_age_ns().
    uint32_t handshake_ms_max = kHandshakeTimeoutNs / kMillisecond;
    uint32_t silence_ms_max = 4000;  ///< a peer whose host is silent for so long is lost
    uint8_t retry_timeout = 14;      ///< a packet is sent again after 4.096 us * 2^this
    uint8_t retry_count = 7;         ///< and so often, before the peer is lost
};

/// Opens a device. Waits up to a second until a device that was just added has its address.
/// Errors: kUnavailable (no usable device, and why), kNotFound (no such device, port or GID),
///         kInvalidArgument (bind address; service level or partition key that the port does not
///         have)
[[nodiscard]] Result<std::unique_ptr<Device>> make_device(const DeviceOptions& options);

/// Bytes of registered memory that each end of a connection takes for message buffers. It takes
/// less if the endpoint has more than a few hundred connections.
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
    std::string why_not;  ///< empty if usable; else why it is not, and what to do
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

/// All RDMA devices of this machine, for people to read.
/// Errors: kUnavailable if there are none; the text says why and what to do
[[nodiscard]] Result<std::vector<DeviceInfo>> list_devices();

}  // namespace weir::transport::verbs

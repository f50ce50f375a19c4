// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The tcp backend: for hosts without an RDMA device.
///
/// Two endpoints share one TCP connection. After the handshake of transport/net it carries frames
/// (see frame.h). Nothing is one-sided here: the peer's poll() serves reads and writes. Their
/// bytes move between the socket and registered memory, without a buffer in between.
///
/// Calls to the kernel cost most, and round trips. So what fits goes inside of messages (see
/// Capabilities::copied_bytes_max); all frames that wait leave in one call; and a poll makes one call
/// for what has come: the sockets of few connections that are busy are read without asking first
/// which ones are ready.
///
/// Plain calls and epoll, and no io_uring: between two ends that ask again and again over loopback,
/// 64 bytes take 4.8 us there and back with recv() and send(), 5.7 us with io_uring as it is best for
/// that (IORING_SETUP_DEFER_TASKRUN) and 11.7 us as it is by default; streams of 1 MiB are equally
/// fast.

#include <cstdint>
#include <memory>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "transport/net/half_open.h"
#include "transport/net/secret.h"
#include "transport/net/socket_address.h"
#include "transport/transport.h"

namespace weir::transport::tcp {

struct DeviceOptions {
    Secret secret{};               ///< of the job; the same on both sides
    std::string bind_address;      ///< empty: all addresses; peers get reached_at
    SocketAddress reached_at;      ///< of this machine; unset: that of the default route
    uint16_t port = 0;             ///< the first endpoint's, +1 for each later one; 0: any
    const Clock* clock = nullptr;  ///< nullptr: the machine's; outlives the device

    /// A connection attempt fails after this time, on both sides. When all places for peers that
    /// have proved nothing are taken, one may lose its place sooner: see eviction_age_ns().
    uint32_t handshake_ms_max = kHandshakeTimeoutNs / kMillisecond;
    uint32_t silence_ms_max = 4000;  ///< a peer whose host is silent for so long is lost
};

/// Errors: kInvalidArgument (bind address)
[[nodiscard]] Result<std::unique_ptr<Device>> make_device(const DeviceOptions& options);

}  // namespace weir::transport::tcp

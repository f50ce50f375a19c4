// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The shm backend: between processes of one host over rings in shared memory, agreed on over a
/// Unix socket; between endpoints of one device over the same rings without the socket. Memory
/// registered with a sealed memfd is mapped by peers; other memory is copied by the kernel.

#include <memory>

#include "transport/net/half_open.h"
#include "transport/net/secret.h"
#include "transport/transport.h"

namespace weir::transport::shm {

struct DeviceOptions {
    Secret secret{};
    /// Then a connection attempt ends, on both sides. Where all places of `handshakes_max` are
    /// taken and somebody waits, see wanted_place_ns().
    uint64_t handshake_timeout_ns = kHandshakeTimeoutNs;
    /// Connections that came to one endpoint and have not proved anything yet; more wait.
    uint32_t handshakes_max = 64;
    /// How long a peer to which memory was exposed has to take the end of its connection.
    uint64_t close_timeout_ns = 2 * kSecond;
    /// What one peer may make this process map.
    uint32_t peer_regions_max = 4096;
    uint64_t peer_mapped_bytes_max = uint64_t{1} << 42;
};

/// Addresses are "shm:HOST/NAME". deregister_memory() waits until no other thread of this process
/// still copies from or to the memory; another process may be in the middle of a copy.
/// Errors: kUnavailable (no /proc, no sealed memfds), kNoMemory
[[nodiscard]] Result<std::unique_ptr<Device>> make_device(const DeviceOptions& options);

}  // namespace weir::transport::shm

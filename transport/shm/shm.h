// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The shm backend. Processes of one host exchange messages over rings in shared memory, which
/// they agree on over a Unix socket. Endpoints of one device use the same rings without the
/// socket. Peers map memory that was registered with a sealed memfd; the kernel copies all other
/// memory.

#include <memory>

#include "transport/net/half_open.h"
#include "transport/net/secret.h"
#include "transport/transport.h"

namespace weir::transport::shm {

struct DeviceOptions {
    Secret secret{};
    /// A connection attempt fails after this time, on both sides. When all `handshakes_max`
    /// places are taken, a peer that has proved nothing may lose its place sooner: see
    /// eviction_age_ns().
    uint64_t handshake_timeout_ns = kHandshakeTimeoutNs;
    /// How many peers may be connected to one endpoint without having proved yet that they know
    /// the secret. Further ones wait in the listener's queue.
    uint32_t handshakes_max = 64;
    /// How long a closed connection waits for its peer to release the memory exposed to it.
    uint64_t close_timeout_ns = 2 * kSecond;
    /// The same of one that is cut off; then the peer's process is ended.
    uint64_t cut_off_timeout_ns = 200 * kMillisecond;
};

/// Makes a device whose addresses are "shm:HOST/NAME". Its deregister_memory() waits, for a short
/// time at most, until no other thread of this process copies from or to the memory. It does not
/// wait for other processes, which may be in the middle of a copy.
/// Errors: kUnavailable (no /proc, no sealed memfds), kNoMemory
[[nodiscard]] Result<std::unique_ptr<Device>> make_device(const DeviceOptions& options);

}  // namespace weir::transport::shm

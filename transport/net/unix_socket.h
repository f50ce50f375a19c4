// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Unix sockets for the handshake of shm: abstract names (which leave no files behind), packets
/// that carry descriptors, and the identity of the peer. Nothing here blocks.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

#include "lib/base/descriptor.h"
#include "lib/base/result.h"

namespace weir::transport {

/// Errors: kIo
[[nodiscard]] Result<Descriptor> listen_abstract(const std::string& name);

/// Connects. A descriptor of -1: the listener's queue is full, try again.
/// Errors:  kPeerLost (no process listens there), kIo
[[nodiscard]] Result<Descriptor> dial_abstract(const std::string& name);

struct PeerIdentity {
    pid_t pid = 0;  ///< 0: not visible from our PID namespace
    uid_t uid = 0;
};

[[nodiscard]] Result<PeerIdentity> peer_identity(int socket);

/// Sends one packet; `fds` arrive as copies. Errors: kBusy (the peer does not read), kPeerLost
[[nodiscard]] Status send_packet(int socket, std::span<const std::byte> bytes,
                                 std::span<const int> fds);

inline constexpr size_t kPacketBytesMax = 256;
inline constexpr size_t kPacketFdsMax = 4;

struct Packet {
    std::array<std::byte, kPacketBytesMax> buffer;
    size_t length_bytes = 0;
    std::vector<Descriptor> fds;
    bool truncated = false;  ///< had more bytes or descriptors than Weir ever sends
};

enum class Receive : uint8_t { kPacket, kNothing, kEnd };

[[nodiscard]] Receive receive_packet(int socket, Packet& packet);

}  // namespace weir::transport

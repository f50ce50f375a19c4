// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Channel: the two rings of one connection, in one block of memory, as one side sees them.
///
///     0      RingControl of the direction from the connecting to the accepting side
///     256    RingControl of the other direction
///     4096   the first direction's ring, then the other's

#include <cstdint>
#include <span>

#include "transport/net/secret.h"
#include "transport/shm/byte_ring.h"
#include "transport/transport.h"

namespace weir::transport::shm {

inline constexpr uint64_t kRingsAt = 4096;
/// Limits that apply whatever an endpoint or its peer asks for.
inline constexpr uint32_t kMessageBytesCap = 1 << 20;
inline constexpr uint64_t kRingBytesCap = 64 << 20;
static_assert(kRingBytesCap / kLineBytes <= kBatchMax, "no batch has more records than that");

/// The size of a connection's rings.
struct ChannelShape {
    uint32_t message_bytes_max = 0;
    uint64_t ring_bytes = 0;

    [[nodiscard]] uint64_t total_bytes() const noexcept { return kRingsAt + 2 * ring_bytes; }
};

/// `wanted`, brought within the limits of this backend.
[[nodiscard]] EndpointOptions clamp(EndpointOptions wanted) noexcept;

/// The shape that is large enough for both sides' options, which are clamped already.
[[nodiscard]] ChannelShape shape_for(const EndpointOptions& a, const EndpointOptions& b) noexcept;

struct Channel {
    RingWriter out;
    RingReader in;

    Channel() = default;
    Channel(std::span<std::byte> memory, const ChannelShape& shape, Side side) noexcept;
};

}  // namespace weir::transport::shm

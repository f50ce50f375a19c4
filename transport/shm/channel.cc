// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/channel.h"

#include <algorithm>

#include "lib/base/check.h"

namespace weir::transport::shm {

namespace {

/// Room for that many of the longest messages, for the gap before the end of the ring that one of
/// them may leave, and for the writer's reserve; at least two of the longest messages in any
/// case.
uint64_t ring_bytes_for(uint64_t message_bytes_max, uint64_t messages_in_flight) noexcept {
    const uint64_t bytes =
        (messages_in_flight + 2) * record_bytes(message_bytes_max) + 2 * kLineBytes;
    return (bytes + 4095) / 4096 * 4096;
}

}  // namespace

EndpointOptions clamp(EndpointOptions wanted) noexcept {
    wanted.message_bytes_max = std::clamp(wanted.message_bytes_max, 8U, kMessageBytesCap);
    const uint64_t fitting = kRingBytesCap / record_bytes(wanted.message_bytes_max) - 3;
    wanted.messages_in_flight =
        static_cast<uint32_t>(std::clamp<uint64_t>(wanted.messages_in_flight, 1, fitting));
    wanted.connections_max = std::clamp(wanted.connections_max, 1U, 1U << 16);
    return wanted;
}

ChannelShape shape_for(const EndpointOptions& a, const EndpointOptions& b) noexcept {
    ChannelShape shape;
    shape.message_bytes_max = std::max(a.message_bytes_max, b.message_bytes_max);
    shape.ring_bytes =
        std::min(ring_bytes_for(shape.message_bytes_max,
                                std::max(a.messages_in_flight, b.messages_in_flight)),
                 kRingBytesCap);
    return shape;
}

Channel::Channel(std::span<std::byte> memory, const ChannelShape& shape, Side side) noexcept {
    WEIR_CHECK(memory.size() >= shape.total_bytes());
    auto* const controls = reinterpret_cast<RingControl*>(memory.data());
    const int outgoing = side == Side::kConnecting ? 0 : 1;
    const auto ring = [&](int direction) {
        return memory.subspan(kRingsAt + static_cast<uint64_t>(direction) * shape.ring_bytes,
                              shape.ring_bytes);
    };
    out = RingWriter(controls + outgoing, ring(outgoing), shape.message_bytes_max);
    in = RingReader(controls + (1 - outgoing), ring(1 - outgoing), shape.message_bytes_max);
}

}  // namespace weir::transport::shm

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A simulated connection: two ends and, per direction, two lanes of packets, one for posted
/// packets and one for answers. Each lane keeps its order. The two lanes do not wait for each
/// other, as acknowledgements of a real network card do not wait for messages.

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "transport/sim/network.h"
#include "transport/transport.h"

namespace weir::transport::sim {

class SimEndpoint;

using Buffer = std::vector<std::byte>;

enum class PacketKind : uint8_t {
    // Posted lane.
    kHello,    ///< the first packet of the connecting side
    kWelcome,  ///< the answer to kHello, before anything else of the accepting side
    kRefusal,  ///< the other answer to kHello
    kMessage,
    kWrite,
    kWriteImmediate,
    kRead,      ///< a request for bytes
    kClose,     ///< an orderly close; after all other posted packets
    kCloseAck,  ///< the reply to kClose
    // Answer lane.
    kDone,    ///< a write was carried out, or an operation was refused
    kBytes,   ///< the data of a kRead
    kCredit,  ///< the receiver has polled `immediate` messages
};

struct Packet {
    PacketKind kind = PacketKind::kMessage;
    Errc status = Errc::kOk;
    uint32_t immediate = 0;  ///< kCredit, kHello and kWelcome: messages that may be sent
    uint32_t tries_lost = 0;
    uint64_t ready_ns = 0;       ///< when the current try arrives
    std::span<std::byte> local;  ///< the poster's memory: read by writes as they are carried out
    RemoteSpan remote;
    size_t moved_bytes = 0;  ///< of a bulk operation, so far
    Buffer bytes;            ///< kMessage, kRead and kBytes
};

struct Lane {
    std::deque<Packet> packets;
    size_t held = 0;         ///< packets at the end that are not flushed yet
    bool scheduled = false;  ///< an event for the first packet is pending
    bool cut = false;        ///< no more packets are delivered
};

/// A read or write that has not ended.
struct Operation {
    Event event = Event::kRead;
    uint64_t context = 0;
    std::span<std::byte> into;
};

enum class EndState : uint8_t { kAbsent, kConnecting, kOpen, kClosing, kEnded };

struct End {
    SimEndpoint* owner = nullptr;
    EndState state = EndState::kAbsent;
    HostId host = 0;
    bool close_acknowledged = false;
    bool peer_ended = false;           ///< see Completion
    bool has_held = false;             ///< is on its endpoint's list of ends to flush
    uint32_t message_bytes_max = 0;    ///< the shorter of both sides'
    uint32_t room = 0;                 ///< messages that may still be sent
    uint32_t polled = 0;               ///< messages polled whose credit is not returned yet
    std::deque<Operation> operations;  ///< in the order in which they were posted and will end
};

struct SimConnection {
    uint64_t serial = 0;  ///< unique in the network, never 0
    uint32_t slot = 0;
    uint64_t target = 0;  ///< number of the accepting endpoint
    End ends[2];          ///< 0 is the connecting one
    Lane lanes[4];        ///< indexed by posted_lane() and response_lane()
};

[[nodiscard]] constexpr uint32_t posted_lane(uint32_t side) noexcept {
    return side << 1;
}

[[nodiscard]] constexpr uint32_t response_lane(uint32_t side) noexcept {
    return (side << 1) | 1;
}

inline constexpr uint32_t kSlotBits = 20;

/// ConnectionIds hold all that is needed to find an end.
[[nodiscard]] constexpr ConnectionId make_id(const SimConnection& connection,
                                             uint32_t side) noexcept {
    return (connection.serial << (kSlotBits + 1)) | (uint64_t{connection.slot} << 1) | side;
}

}  // namespace weir::transport::sim

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ShmConnection: everything that an endpoint holds for one peer.

#include <memory>
#include <string>
#include <unordered_set>

#include <fmt/core.h>

#include "transport/net/unix_socket.h"
#include "transport/shm/channel.h"
#include "transport/shm/handshake.h"
#include "transport/shm/hub.h"
#include "transport/shm/memory/far_memory.h"
#include "transport/shm/memory/peer_regions.h"
#include "transport/transport.h"

namespace weir::transport::shm {

/// A ConnectionId is a serial number followed by the connection's slot in the endpoint's table.
inline constexpr uint32_t kSlotBits = 20;

[[nodiscard]] constexpr uint32_t slot_index(ConnectionId id) noexcept {
    return static_cast<uint32_t>(id & ((1U << kSlotBits) - 1));
}

/// Thread: the endpoint's.
struct ShmConnection {
    /// Only ShmEndpoint::enter() changes the state; it sets the deadline of the new state.
    enum class State : uint8_t {
        kNew,      ///< not counted anywhere yet
        kDialing,  ///< to be dialled, at first or again: the listener had no room
        kShaking,  ///< handshake over the socket
        kOffered,  ///< offered to another endpoint of this device
        kOpen,
        kDraining,  ///< the peer has ended; what it sent before is still delivered
        kClosing,   ///< we sent kClose; the peer may still copy from or to our memory
        kGone,      ///< about to be deleted
    };

    ConnectionId id = 0;
    State state = State::kNew;
    Side side = Side::kConnecting;

    // While it is being set up.
    std::string target;
    uint64_t deadline_ns = 0;  ///< of the state; 0: none
    std::unique_ptr<ChannelHandshake> handshake;

    // The peer: a socket to another process, or a link to an endpoint of this device.
    Descriptor socket;
    PeerIdentity peer;
    std::shared_ptr<DirectLink> link;

    // Data.
    Mapping memory;
    Channel channel;
    bool asymmetric = false;
    PeerRegions peer_regions;
    FarProcess far_process;
    std::unordered_set<uint64_t> known_regions;  ///< keys of our regions that the peer knows
    uint32_t operations_open = 0;
    bool exposed = false;          ///< the peer knows memory of ours
    bool peer_ended = false;       ///< see Completion
    bool memory_in_doubt = false;  ///< the peer has not released that memory in time
    bool is_cut_off = false;       ///< its process may be ended
    Errc end_status = Errc::kOk;   ///< kClosing: how it ended

    // Its places in the lists of RingPoller.
    size_t watch_index = 0;
    uint64_t taken_at = 0;  ///< the number of the last poll that took a record from its ring
    bool dirty = false;     ///< records written since the last flush
    bool lent = false;      ///< its payloads are lent to the caller until the next poll

    [[nodiscard]] bool has_channel() const noexcept {
        return state == State::kOffered || state == State::kOpen || state == State::kDraining;
    }

    [[nodiscard]] bool comes_into_being() const noexcept {
        return state == State::kDialing || state == State::kShaking || state == State::kOffered;
    }

    /// Whether nothing more can be sent.
    [[nodiscard]] bool is_over() const noexcept {
        return state == State::kDraining || state == State::kClosing;
    }

    /// Whether the peer began this connection and the handshake is not complete. The endpoint's
    /// caller does not know of such a connection.
    [[nodiscard]] bool is_unproven() const noexcept {
        return side == Side::kAccepting && comes_into_being();
    }

    /// For people.
    [[nodiscard]] std::string peer_name() const {
        if (link != nullptr) return "another endpoint of this process";
        if (peer.pid == 0) return "a process of this host";
        return fmt::format("pid {} on this host", peer.pid);
    }
};

}  // namespace weir::transport::shm

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Connection: all that an endpoint keeps for one of its connections.

#include <cstdint>
#include <optional>
#include <string>

#include "transport/credits.h"
#include "transport/verbs/capacity.h"
#include "transport/verbs/handshake.h"
#include "transport/verbs/send_queue.h"
#include "transport/verbs/side_channel.h"

namespace weir::transport::verbs {

/// In the upper half of a message's immediate; the lower half takes credits back.
enum class MessageKind : uint16_t { kMessage = 0, kCreditUpdate = 1 };
inline constexpr uint32_t kCreditBits = 16;  ///< in that lower half

/// An operation longer than the device's longest work request, or than the room there was: the
/// rest of it. Nothing else is posted by the caller meanwhile.
struct Remainder {
    Transfer next;  ///< all but `bytes`
    uint64_t bytes = 0;
    Operation operation;
    ibv_wr_opcode last_opcode = IBV_WR_RDMA_READ;  ///< of the last part: with immediate or not
};

/// What a queue pair can still do. It fails by itself too, before its connection notices.
enum class QueuePairState : uint8_t {
    kNone,
    kMade,   ///< nothing can be posted yet
    kUp,     ///< towards the peer
    kEnded,  ///< in ERR; it may still hold a buffer of the receive queue
    kSpent,  ///< in ERR, and it takes nothing more from the receive queue
};

struct Connection {
    /// The way of a connection, from top to bottom. VerbsEndpoint::enter() alone changes it, and
    /// sets the deadline of the new state. Every state before may be followed by kDraining.
    enum class State : uint8_t {
        kMeeting,     ///< on the side channel; the peer has proved nothing yet
        kJoining,     ///< it has, and the queue pair comes up
        kOpen,        ///< the caller may post
        kFinishing,   ///< an orderly end: nothing new, but what is posted ends; a fence tells when
        kParting,     ///< our goodbye is said: waiting for the peer's, and for all its messages
        kDraining,    ///< the queue pair has ended: waiting until it has flushed what was posted
        kGivingBack,  ///< all is flushed: waiting for the receive buffer that it may still hold
        kDrained,     ///< nothing holds it any more: the end of a poll releases it
    };

    Connection(ConnectionId name, Side our_side, const Secret& secret, const Nonce& nonce)
        : id(name), side(our_side), side_channel(our_side, secret, nonce) {}

    /// Before it is open.
    [[nodiscard]] bool is_coming() const noexcept { return state <= State::kJoining; }

    /// Nothing more happens on it but its end.
    [[nodiscard]] bool is_ending() const noexcept { return state >= State::kDraining; }

    /// Somebody who has connected to us and proved nothing.
    [[nodiscard]] bool is_stranger() const noexcept {
        return state == State::kMeeting && side == Side::kAccepting;
    }

    /// Whether all messages are here that the peer counted in its goodbye.
    [[nodiscard]] bool has_all_of_peer() const noexcept {
        return peer_goodbye.has_value() && messages_in >= *peer_goodbye;
    }

    ConnectionId id;
    Side side;
    State state = State::kMeeting;
    QueuePairState queue_pair = QueuePairState::kNone;
    bool announced = false;  ///< the caller knows it: it must learn of the end
    bool is_in_flush_list = false;
    Errc reason = Errc::kOk;  ///< for kClosed
    uint32_t beacon = 0;      ///< from kDraining on: the last request that is to be flushed
    uint32_t operations_open = 0;
    uint64_t deadline_ns = 0;   ///< of the state; 0: none. ConnectionTable's
    uint64_t messages_out = 0;  ///< everything that costs a credit
    uint64_t messages_in = 0;
    std::optional<uint32_t> fence;         ///< kFinishing: once there was room to post it
    std::optional<uint64_t> peer_goodbye;  ///< the peer ends it, and has sent so many messages

    Grant grant;
    Credits credits;
    Claim own;
    Claim peer;
    QpPtr qp;
    SocketAddress target;  ///< connecting: of the side channel
    std::string peer_name;
    SideChannel side_channel;
    std::optional<Remainder> remainder;
    std::optional<SendQueue> sends;
};

}  // namespace weir::transport::verbs

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// VerbsConnection: all that an endpoint holds for one connection.

#include <cstdint>
#include <optional>
#include <string>

#include "transport/credits.h"
#include "transport/verbs/capacity.h"
#include "transport/verbs/send_queue.h"
#include "transport/verbs/setup/handshake.h"
#include "transport/verbs/setup/side_channel.h"

namespace weir::transport::verbs {

/// The kind of a message, in the upper half of its immediate. The lower half returns credits.
enum class MessageKind : uint16_t { kMessage = 0, kCreditUpdate = 1 };
inline constexpr uint32_t kCreditBits = 16;  ///< width of that lower half

/// The part of an operation that is not posted yet, because the operation is longer than one work
/// request may be, or because there was no room. The caller's further posts wait for it.
struct Remainder {
    Transfer next;  ///< for the next part; `bytes` is set when it is posted
    uint64_t bytes = 0;
    Operation operation;
    ibv_wr_opcode last_opcode = IBV_WR_RDMA_READ;  ///< of the last part: with immediate or not
};

/// What a queue pair can still do. It can fail before its connection notices.
enum class QueuePairState : uint8_t {
    kNone,
    kMade,   ///< nothing can be posted yet
    kUp,     ///< connected to the peer
    kEnded,  ///< in ERR; it may still hold a buffer of the receive queue
    kSpent,  ///< in ERR, and it takes nothing more from the receive queue
};

struct VerbsConnection {
    /// The states of a connection, in order. Only VerbsEndpoint::enter() changes the state; it
    /// sets the deadline of the new state. kDraining may follow any state before it.
    enum class State : uint8_t {
        kMeeting,     ///< on the side channel; the peer has proved nothing yet
        kJoining,     ///< the peer has proved itself; the queue pair comes up
        kOpen,        ///< the caller may post
        kFinishing,   ///< an orderly end: no new posts; a fence waits for the posted ones
        kParting,     ///< our Bye is sent: waiting for the peer's, and for all its messages
        kDraining,    ///< the queue pair is in ERR: waiting until the posted requests are flushed
        kGivingBack,  ///< all is flushed: waiting for the receive buffer that it may still hold
        kDrained,     ///< all is given back: the end of a poll releases the connection
    };

    VerbsConnection(ConnectionId name, Side our_side, const Secret& secret, const Nonce& nonce)
        : id(name), side(our_side), side_channel(our_side, secret, nonce) {}

    /// Whether it is not open yet.
    [[nodiscard]] bool is_coming() const noexcept { return state <= State::kJoining; }

    /// Whether it is past all posts and messages, and only has to be taken down.
    [[nodiscard]] bool is_ending() const noexcept { return state >= State::kDraining; }

    /// Whether the peer began it and has proved nothing yet.
    [[nodiscard]] bool is_unproven() const noexcept {
        return state == State::kMeeting && side == Side::kAccepting;
    }

    /// Whether all messages have arrived that the peer counted in its Bye.
    [[nodiscard]] bool has_all_of_peer() const noexcept {
        return peer_bye_messages.has_value() && messages_in >= *peer_bye_messages;
    }

    ConnectionId id;
    Side side;
    State state = State::kMeeting;
    QueuePairState queue_pair = QueuePairState::kNone;
    bool is_known_to_caller = false;  ///< the caller knows of it and must learn of its end
    bool is_in_flush_list = false;
    Errc reason = Errc::kOk;  ///< status of the kClosed completion
    uint32_t beacon = 0;      ///< from kDraining on: the last request to be flushed
    uint32_t operations_open = 0;
    uint64_t deadline_ns = 0;   ///< of the state; 0: none. Set by VerbsConnectionTable
    uint64_t messages_out = 0;  ///< messages sent: everything that costs a credit
    uint64_t messages_in = 0;
    std::optional<uint32_t> fence;              ///< in kFinishing, once there was room to post it
    bool peer_ended = false;                    ///< see Completion
    std::optional<uint64_t> peer_bye_messages;  ///< in the peer's Bye: the messages that it sent

    Grant grant;
    Credits credits;
    Claim own;
    Claim peer;
    QpPtr qp;
    SocketAddress target;  ///< connecting side: the peer's side channel
    std::string peer_name;
    SideChannel side_channel;
    std::optional<Remainder> remainder;
    std::optional<SendQueue> sends;
};

}  // namespace weir::transport::verbs

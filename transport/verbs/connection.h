// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Connection: all that an endpoint keeps for one of its connections.

#include <cstdint>
#include <optional>
#include <string>

#include "transport/credits.h"
#include "transport/net/socket.h"
#include "transport/verbs/capacity.h"
#include "transport/verbs/handshake.h"
#include "transport/verbs/send_queue.h"

namespace weir::transport::verbs {

/// In the upper half of a message's immediate; the lower half takes credits back.
enum class MessageKind : uint16_t { kMessage = 0, kCreditUpdate = 1 };

/// An operation longer than the device's longest work request, or than the room there was: the
/// rest of it. Nothing else is posted by the caller meanwhile.
struct Remainder {
    Transfer next;  ///< all but `bytes`
    uint64_t bytes = 0;
    Operation operation;
    ibv_wr_opcode last_opcode = IBV_WR_RDMA_READ;  ///< of the last part: with immediate or not
};

struct Connection {
    enum class State : uint8_t {
        kHandshake,  ///< side channel only; the queue pair may be up already
        kOpen,
        kClosing,   ///< an orderly end: nothing new, but what is posted ends
        kDraining,  ///< the queue pair is in ERR; waiting until it has flushed everything
    };

    Connection(ConnectionId name, Side our_side, const Secret& secret, const Nonce& nonce)
        : id(name), side(our_side), handshake(our_side, secret, nonce) {}

    ConnectionId id;
    Side side;
    State state = State::kHandshake;
    bool announced = false;  ///< the caller knows it: it must learn of the end

    // The side channel.
    bool tcp_connected = false;
    bool wants_output = false;  ///< waits until the socket is writable

    // The queue pair.
    bool qp_up = false;
    bool dirty = false;  ///< in the list of those with something to flush

    // The end.
    bool fence_posted = false;
    bool fence_done = false;  ///< everything we posted has arrived
    bool bye_sent = false;
    bool bye_received = false;
    bool receives_over = false;  ///< the queue pair takes no more from the receive queue
    bool drained = false;
    Errc reason = Errc::kOk;  ///< for kClosed
    uint32_t fence = 0;       ///< its sequence number
    uint32_t beacon = 0;
    uint32_t operations_open = 0;
    uint64_t deadline_ns = 0;   ///< of the handshake, the orderly end or the drain; 0: none
    uint64_t messages_out = 0;  ///< everything that costs a credit
    uint64_t messages_in = 0;

    Socket socket;
    Share share;
    Credits credits;
    Claim own;
    Claim peer;
    QpPtr qp;
    SocketAddress target;  ///< connecting: of the side channel
    std::string peer_name;
    Handshake handshake;
    std::optional<Remainder> remainder;
    std::optional<SendQueue> sends;
};

}  // namespace weir::transport::verbs

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// TcpConnection: all that an endpoint holds for one connection.

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "transport/net/handshake.h"
#include "transport/net/socket.h"
#include "transport/tcp/input.h"
#include "transport/tcp/output.h"
#include "transport/transport.h"

namespace weir::transport::tcp {

/// Reads and writes of one side in flight.
inline constexpr uint32_t kOperationsMost = 64;
/// The protocol of the handshake.
inline constexpr Protocol kProtocol{"tcp", 0x54524557, 1};  // "WERT"

/// A read or write of ours that the peer has not answered.
struct Operation {
    Event event = Event::kRead;
    uint64_t context = 0;
    std::span<std::byte> into;  ///< a read's target
};

/// Our operations in the order in which they were posted, in which the peer answers them.
class Operations {
public:
    [[nodiscard]] bool empty() const noexcept { return count_ == 0; }

    [[nodiscard]] bool is_full() const noexcept { return count_ == kOperationsMost; }

    [[nodiscard]] const Operation& front() const noexcept { return ring_[first_]; }

    void push(const Operation& operation) noexcept {
        ring_[(first_ + count_++) % kOperationsMost] = operation;
    }

    Operation pop() noexcept {
        const Operation front = ring_[first_];
        first_ = (first_ + 1) % kOperationsMost;
        --count_;
        return front;
    }

private:
    std::array<Operation, kOperationsMost> ring_{};
    uint32_t first_ = 0;
    uint32_t count_ = 0;
};

/// Data that are on their way from the socket into registered memory.
struct Incoming {
    FrameType type = FrameType::kReadData;  ///< or kWrite, kWriteImmediate
    uint32_t immediate = 0;
    RemoteSpan exposed{};  ///< of a write: what of our memory it writes
    std::byte* at = nullptr;
    uint64_t bytes_left = 0;
    size_t padding_left = 0;
};

struct TcpConnection {
    /// The states of a connection, in order. Only TcpEndpoint::enter() changes the state; it sets
    /// the deadline of the new state. kEnded may follow any state.
    enum class State : uint8_t {
        kDialing,    ///< connect() is under way
        kMeeting,    ///< in the handshake; the peer has proved nothing yet
        kJoining,    ///< the peer has proved itself; its Ready is missing
        kOpen,       ///< the caller may post
        kFinishing,  ///< an orderly end: no new posts; the posted operations end
        kParting,    ///< our Bye is on its way: waiting for the peer's
        kEnded,      ///< the end of a poll releases the connection
    };

    TcpConnection(ConnectionId name, Side our_side, const Secret& secret, const Nonce& nonce)
        : id(name), side(our_side), handshake(kProtocol, our_side, secret, nonce) {}

    [[nodiscard]] bool is_coming() const noexcept { return state <= State::kJoining; }

    [[nodiscard]] bool is_unproven() const noexcept {
        return state == State::kMeeting && side == Side::kAccepting;
    }

    ConnectionId id;
    Side side;
    State state = State::kDialing;
    bool is_known_to_caller = false;  ///< the caller knows of it and must learn of its end
    bool is_in_flush_list = false;
    bool is_lent = false;           ///< its input holds messages that the caller may read
    bool has_unused_input = false;  ///< bytes that the last poll had no room to deliver
    bool is_busy = false;           ///< it received something since all sockets were asked
    bool is_blocked = false;        ///< the kernel takes no more: wait until the socket is writable
    bool is_watched_for_output = false;
    bool peer_bye = false;
    bool peer_ended = false;   ///< see Completion
    Errc reason = Errc::kOk;   ///< status of the kClosed completion
    uint32_t writes_done = 0;  ///< of the peer, to be reported by kWritten
    uint64_t deadline_ns = 0;  ///< of the state; 0: none

    SocketAddress target;  ///< connecting side
    std::string peer_name;
    Socket socket;
    Handshake handshake;
    RecordReader records{kProtocol, Handshake::kBodyBytesMax};
    std::optional<Input> input;  ///< once it is open
    Output output;
    Operations operations;
    std::optional<Incoming> incoming;
};

}  // namespace weir::transport::tcp

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Peers: the connections of a replica with the others of its group. Each replica connects to every other
/// one and sends on that connection only; so each pair has two. What is lost with a connection is not sent
/// again: Raft does that.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/repeated_log.h"
#include "lib/consensus/parts.h"
#include "transport/transport.h"

namespace weir::consensus {

/// A replica of a group.
struct Member {
    uint64_t id = 0;  ///< not 0; that of no other replica, see replicated_log.h
    std::string address;
};

/// Thread: one
class Peers {
public:
    /// A message of a peer. False: it is malformed, and its connection is closed.
    using Take = std::function<bool(uint64_t sender, std::span<const std::byte> message)>;

    /// Whether the process of a member, an index in `members`, has ended for good, proved.
    using HasEnded = std::function<bool(size_t member)>;

    /// `members`: all replicas of the group, `self` among them. `clock` must outlive it.
    Peers(std::unique_ptr<transport::Endpoint> endpoint, const Clock& clock, uint64_t group,
          uint64_t self, const std::vector<Member>& members, HasEnded has_ended = {});

    /// False: the peer is not connected, or has not taken what was sent before; nothing was sent.
    [[nodiscard]] bool send(uint64_t receiver, std::span<const std::byte> message);

    /// Gives the messages that have come to `take`, makes connections anew, and sends. Returns the number of
    /// events. It reads no more than kEventsMax.
    size_t poll(const Take& take);

    [[nodiscard]] int arm();

    static constexpr size_t kEventsMax = 1024;

private:
    /// No more is put behind what waits for a peer if that is longer than this.
    static constexpr size_t kWaitingBytesMax = size_t{1} << 20;
    static constexpr size_t kStrangersMax = 64;  ///< connections that have not greeted

    /// A peer, and the connection to it.
    struct Peer {
        Member member;
        size_t index = 0;                        ///< among all members
        transport::ConnectionId connection = 0;  ///< 0: none
        bool is_connected = false;
        uint64_t not_before_ns = 0;  ///< the next attempt
        uint64_t pause_ns = 0;
        std::deque<std::vector<std::byte>> waiting = {};  ///< parts
        size_t waiting_bytes = 0;
    };

    /// A connection from a peer.
    struct Inbound {
        uint64_t sender = 0;  ///< 0: it has not greeted
        PartJoiner joiner;
    };

    void handle(const transport::Completion& completion, const Take& take);
    void receive(const transport::Completion& completion, const Take& take);
    /// Empty, or what is wrong with the first message of a connection.
    [[nodiscard]] std::string_view greet(Inbound& inbound, const transport::Completion& completion);
    void refuse(transport::ConnectionId connection, std::string_view why);
    /// Whether it is time to connect to it. Never to one whose process has ended: a new process has
    /// another address.
    [[nodiscard]] bool is_due(const Peer& peer, uint64_t now_ns) const;
    void connect(Peer& peer);
    void try_later(Peer& peer);
    void post(Peer& peer);
    [[nodiscard]] Peer* peer_of(transport::ConnectionId connection) noexcept;

    std::unique_ptr<transport::Endpoint> endpoint_;
    const Clock& clock_;
    uint64_t group_;
    uint64_t self_;
    size_t part_bytes_max_;
    HasEnded has_ended_;
    std::vector<Peer> peers_;
    std::unordered_map<transport::ConnectionId, Inbound> inbound_;
    std::array<transport::Completion, 32> completions_;
    RepeatedLog refusals_;
};

}  // namespace weir::consensus

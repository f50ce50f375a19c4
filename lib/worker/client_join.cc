// SPDX-License-Identifier: Apache-2.0
/// \file
/// How a client joins its job, and what becomes of its requests when a connection closes.

#include <array>
#include <utility>

#include <fmt/core.h>

#include "lib/worker/client_core.h"

namespace weir {

using transport::ConnectionId;
using wire::Kind;

namespace {

constexpr const char* kMemoryNotReleased =
    "; it did not confirm the end of the connection, and may still read or write the memory of "
    "the requests that were open there: this client does not use that memory again";

}  // namespace

void ClientCore::connected(ConnectionId connection) {
    for (uint32_t i = 0; i < peers_.size(); ++i) {
        Peer& peer = peers_[i];
        if (peer.connection != connection || peer.state != Peer::State::kConnecting) continue;
        peer.state = Peer::State::kOpen;
        peer.maps_memory = endpoint_->capabilities_of(connection).maps_memory;
        wire::FrameHeader header;
        header.kind = Kind::kHello;
        header.first = options_.worker;
        std::vector<std::byte> body;
        if (i == manager()) {
            header.kind = Kind::kJoin;
            body = JoinMessage{JoinMessage::Role::kWorker, options_.rank, options_.worker, {}}
                       .encode();
            phase_ = Phase::kJoining;
        }
        header.body_bytes = static_cast<uint32_t>(body.size());
        const std::array<std::span<const std::byte>, 2> parts{wire::bytes_of(header), body};
        WEIR_CHECK(endpoint_->send(connection, parts) != transport::Post::kNotNow);
        endpoint_->flush();
    }
    if (phase_ != Phase::kConnectingToShards) return;
    for (const Peer& peer : peers_) {
        if (peer.state != Peer::State::kOpen) return;
    }
    phase_ = Phase::kReady;
}

void ClientCore::assigned(std::span<const std::byte> body) {
    if (phase_ != Phase::kJoining || !assignment_parts_.add(body)) {
        return fail(Error(Errc::kProtocol, "the manager sent a malformed assignment"));
    }
    if (!assignment_parts_.complete()) return;
    const AssignmentMessage& message = assignment_parts_.whole();
    Result<Assignment> assignment = Assignment::make(message.epoch, message.shape);
    if (!assignment) return fail(std::move(assignment).error());
    assignment_ = std::make_unique<Assignment>(std::move(*assignment));
    worker_count_ = message.worker_count;
    phase_ = Phase::kConnectingToShards;
    Peer manager = std::move(peers_.back());
    peers_.clear();
    for (uint32_t i = 0; i < message.shards.size(); ++i) {
        const AssignmentMessage::Shard& shard = message.shards[i];
        const ShardPlace place = assignment_->place(i);
        Peer& peer = peers_.emplace_back();
        peer.name =
            fmt::format("shard {} of server {} (rank {})", place.shard, place.server, shard.rank);
        Result<ConnectionId> connection = endpoint_->connect(shard.address);
        if (!connection) {
            return fail(Error(connection.code(), fmt::format("cannot connect to {}: {}", peer.name,
                                                             connection.error().message())));
        }
        peer.connection = *connection;
    }
    peers_.push_back(std::move(manager));
}

void ClientCore::closed(ConnectionId connection, Errc why, bool memory_in_doubt) {
    for (uint32_t i = 0; i < peers_.size(); ++i) {
        Peer& peer = peers_[i];
        if (peer.connection != connection || peer.state == Peer::State::kLost) continue;
        if (peer.fault != Errc::kOk) why = peer.fault;
        // A device that gives up connecting reports no more than kDeadline.
        const bool never_came = peer.state == Peer::State::kConnecting && why == Errc::kDeadline;
        peer.state = Peer::State::kLost;
        waiting_count_ -= peer.waiting.size();
        peer.waiting.clear();
        const Status lost =
            never_came ? no_answer_from(peer.name)
                       : Error(Errc::kPeerLost,
                               fmt::format("{} is gone ({}); it died or the network to it is cut{}",
                                           peer.name, to_string(why),
                                           memory_in_doubt ? kMemoryNotReleased : ""));
        requests_.for_each([&](uint64_t id, Request& request) {
            if (request.peer != i) {
                // Without that shard, the other workers will not come to the barrier either.
                Call* const call = calls_.find(request.call);
                const bool at_barrier = request.header.kind == Kind::kBarrier;
                if (at_barrier && call != nullptr) call->fail(lost);
                return;
            }
            if (Call* const call = calls_.find(request.call)) call->note_error(lost);
            if (memory_in_doubt) {
                abandon_request(request);
            } else {
                end_request(id, request);
            }
        });
        if (i != manager()) held_failures_.blame(lost);
        withdraw_barriers();
        if (phase_ < Phase::kReady) fail(lost);
        return;
    }
}

/// Closes the connections to the shards, once a worker that gave up has no open requests.
void ClientCore::leave_shards() {
    gave_up_ = false;
    for (Peer& peer : std::span(peers_).first(manager())) {
        if (peer.state == Peer::State::kOpen) endpoint_->close(peer.connection);
        peer.state = Peer::State::kLost;
    }
}

Error ClientCore::no_answer_from(std::string_view whom) const {
    return {Errc::kDeadline,
            fmt::format("no answer from {} within {} s; check that it runs and can be reached",
                        whom, (clock_.now_ns() - started_ns_) / kSecond)};
}

}  // namespace weir

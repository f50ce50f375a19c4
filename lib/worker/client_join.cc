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

void ClientCore::receive_view(std::span<const std::byte> body) {
    if (phase_ != Phase::kJoining) {
        return fail(Error(Errc::kProtocol, "the manager sent another view; this client has one"));
    }
    if (const Status part = view_parts_.add(body); !part) {
        return fail(
            Error(Errc::kProtocol, "the manager sent a malformed view: " + part.error().message()));
    }
    if (!view_parts_.complete()) return;
    const ViewParts parts = std::exchange(view_parts_, {});
    Result<View> view = apply(view_, parts.change());
    if (!view) return fail(std::move(view).error());
    take_view(std::move(*view));
}

/// The first view: the number of a shard is its place in it.
void ClientCore::take_view(View view) {
    if (view.shards().empty() || view.shards().size() != view.data().next_shard) {
        return fail(Error(Errc::kProtocol,
                          "the manager sent a first view without shards, or with gaps in their "
                          "numbers"));
    }
    view_ = std::move(view);
    worker_count_ = static_cast<uint32_t>(view_.workers().size());
    phase_ = Phase::kConnectingToShards;
    Peer manager = std::move(peers_.back());
    peers_.clear();
    for (const ViewShard& shard : view_.shards()) {
        Peer& peer = peers_.emplace_back();
        peer.name = shard_name(view_, shard);
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

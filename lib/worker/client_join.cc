// SPDX-License-Identifier: Apache-2.0
/// \file
/// How a client joins its job, and what becomes of its requests when a connection closes.

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/core.h>

#include "lib/worker/client_core.h"

namespace weir {

using transport::ConnectionId;
using wire::Kind;

namespace {

constexpr uint64_t kPauseNsMax = 100 * kMillisecond;  // between two attempts to connect

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
        if (i != manager()) {
            ++peer.hello;
            peer.is_greeted = false;
            peer.pause_ns = 0;
            peer.not_before_ns = 0;
            (void)greet(peer);
            continue;
        }
        phase_ = Phase::kJoining;
        const std::vector<std::byte> body =
            JoinMessage{JoinMessage::Role::kWorker, options_.rank, options_.worker, {}}.encode();
        wire::FrameHeader header = wire::header_of(Kind::kJoin);
        header.body_bytes = static_cast<uint32_t>(body.size());
        const std::array<std::span<const std::byte>, 2> parts{wire::bytes_of(header), body};
        WEIR_CHECK(endpoint_->send(connection, parts) != transport::Post::kNotNow);
    }
    endpoint_->flush();
    if (phase_ != Phase::kConnectingToShards) return;
    for (const Peer& peer : peers_) {
        if (peer.state != Peer::State::kOpen) return;
    }
    phase_ = Phase::kReady;
}

/// Sends the hello of a new connection to a shard. False: not now; it goes before the first
/// request.
bool ClientCore::greet(Peer& peer) {
    wire::FrameHeader header = wire::header_of(Kind::kHello);
    header.request = peer.hello;
    header.first = options_.worker;
    const std::array<std::span<const std::byte>, 1> parts{wire::bytes_of(header)};
    peer.is_greeted = endpoint_->send(peer.connection, parts) == transport::Post::kPosted;
    return peer.is_greeted;
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
        const bool is_connected =
            peer.state == Peer::State::kConnecting || peer.state == Peer::State::kOpen;
        if (peer.connection != connection || !is_connected) continue;
        if (peer.fault != Errc::kOk) why = peer.fault;
        // A device that gives up connecting reports no more than kDeadline.
        const bool never_came =
            peer.state == Peer::State::kConnecting && peer.hello == 0 && why == Errc::kDeadline;
        const Status lost =
            never_came ? no_answer_from(peer.name)
                       : Error(Errc::kPeerLost,
                               fmt::format("{} is gone ({}); it died or the network to it is cut{}",
                                           peer.name, to_string(why),
                                           memory_in_doubt ? kMemoryNotReleased : ""));
        const bool may_live = i != manager() && !peer.is_dead && peer.fault == Errc::kOk &&
                              peers_.back().state == Peer::State::kOpen &&
                              (phase_ == Phase::kReady || phase_ == Phase::kLeft);
        may_live ? keep_for_next_connection(i, lost, memory_in_doubt)
                 : lose(i, lost, memory_in_doubt);
        if (i != manager()) return;
        for (uint32_t shard = 0; shard < manager(); ++shard) {  // nobody says any more who lives
            if (peers_[shard].state == Peer::State::kBroken) shard_died(shard);
        }
        return;
    }
}

/// The connection is broken; the shard may live. Its pushes and pulls wait until there is another
/// connection, or until the manager says that the shard is dead, or until their deadlines.
void ClientCore::keep_for_next_connection(uint32_t i, const Status& why, bool memory_in_doubt) {
    Peer& peer = peers_[i];
    peer.state = Peer::State::kBroken;
    ++broken_count_;
    peer.orders.clear();
    peer.not_before_ns = clock_.now_ns() + peer.pause_ns;
    peer.pause_ns = std::clamp(2 * peer.pause_ns, kMillisecond, kPauseNsMax);
    std::vector<uint64_t> kept;
    requests_.for_each([&](uint64_t id, Request& request) {
        if (request.peer != i || request.state != Request::State::kSent) return;
        if (memory_in_doubt || !wire::is_request(request.header.kind)) {
            if (Call* const call = calls_.find(request.call)) call->note_error(why);
            return memory_in_doubt ? abandon_request(request) : end_request(id, request);
        }
        kept.push_back(id);
    });
    for (const uint64_t id : kept)
        send_again(id, *requests_.find(id), false);
}

/// The peer is dead, or as good as dead. Its requests end.
void ClientCore::lose(uint32_t i, const Status& why, bool memory_in_doubt) {
    Peer& peer = peers_[i];
    if (peer.state == Peer::State::kBroken) --broken_count_;
    peer.state = Peer::State::kLost;
    waiting_count_ -= peer.waiting.size();
    peer.waiting.clear();
    requests_.for_each([&](uint64_t id, Request& request) {
        if (request.peer != i) {
            // Without that shard, the other workers will not come to the barrier either.
            Call* const call = calls_.find(request.call);
            const bool at_barrier = request.header.kind == Kind::kBarrier;
            if (at_barrier && call != nullptr) call->fail(why);
            return;
        }
        if (request.state == Request::State::kKeptAside) return;
        if (Call* const call = calls_.find(request.call)) call->note_error(why);
        if (memory_in_doubt) {
            abandon_request(request);
        } else {
            end_request(id, request);
        }
    });
    if (i != manager()) held_failures_.blame(why);
    withdraw_barriers();
    if (phase_ < Phase::kReady) fail(why);
}

/// The manager says that a shard is dead, or there is no manager any more that could say it. A
/// connection that is open still counts until it closes.
void ClientCore::shard_died(uint64_t shard) {
    if (shard >= manager()) return;
    Peer& peer = peers_[shard];
    peer.is_dead = true;
    if (peer.state != Peer::State::kBroken) return;
    lose(static_cast<uint32_t>(shard),
         Error(Errc::kPeerLost,
               fmt::format("{} is gone; it died or the network to it is cut", peer.name)),
         false);
}

void ClientCore::connect_again(uint64_t now_ns) {
    if (phase_ != Phase::kReady && phase_ != Phase::kLeft) return;
    for (uint32_t i = 0; i < manager(); ++i) {
        Peer& peer = peers_[i];
        if (peer.state != Peer::State::kBroken || now_ns < peer.not_before_ns) continue;
        const Result<ConnectionId> connection = endpoint_->connect(view_.shards()[i].address);
        if (connection) {
            peer.connection = *connection;
            peer.state = Peer::State::kConnecting;
            --broken_count_;
        } else {
            peer.not_before_ns = now_ns + peer.pause_ns;
            peer.pause_ns = std::clamp(2 * peer.pause_ns, kMillisecond, kPauseNsMax);
        }
    }
}

/// Closes the connections to the shards, once a worker that gave up has no open requests.
void ClientCore::leave_shards() {
    gave_up_ = false;
    for (Peer& peer : std::span(peers_).first(manager())) {
        if (peer.state == Peer::State::kBroken) --broken_count_;
        const bool is_connected =
            peer.state == Peer::State::kOpen || peer.state == Peer::State::kConnecting;
        if (is_connected) endpoint_->close(peer.connection);
        peer.state = Peer::State::kLost;
    }
}

Error ClientCore::no_answer_from(std::string_view whom) const {
    return {Errc::kDeadline,
            fmt::format("no answer from {} within {} s; check that it runs and can be reached",
                        whom, (clock_.now_ns() - started_ns_) / kSecond)};
}

}  // namespace weir

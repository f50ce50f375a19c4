// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/peers/peers.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "lib/base/random.h"
#include "lib/base/secret_seed.h"
#include "lib/node/manager_names.h"
#include "lib/wire/messages.h"

namespace weir {

using transport::ConnectionId;
using wire::Kind;
using Phase = Standing::Phase;

namespace {

constexpr uint64_t kConnectPauseNsMax = 100 * kMillisecond;  // between two attempts to connect

}  // namespace

Peers::Peers(Standing& standing, transport::Endpoint& endpoint, const Clock& clock)
    : standing_(standing),
      endpoint_(endpoint),
      clock_(clock),
      link_(endpoint, clock, standing.options().manager_address, standing.options().link),
      pass_(standing.options().secret_seed ? mix64(*standing.options().secret_seed)
                                           : secret_seed()) {
    manager_.name = manager_name(standing.options().link.manager.get());
    manager_.is_greeted = true;
}

Peer* Peers::find(ConnectionId connection) noexcept {
    const auto at = std::ranges::find(shards_, connection, &Peer::connection);
    if (at != shards_.end()) return &*at;
    return manager_.connection == connection ? &manager_ : nullptr;
}

void Peers::enter(Peer& peer, Peer::State next) noexcept {
    using State = Peer::State;
    const State before = peer.state_;
    WEIR_CHECK(next != State::kOpen || before == State::kConnecting);
    WEIR_CHECK(before != State::kLost || next == State::kGone || next == State::kLost);
    if (before == State::kBroken) {
        WEIR_CHECK(broken_count_ > 0);
        --broken_count_;
    }
    if (next == State::kBroken) ++broken_count_;
    peer.state_ = next;
}

void Peers::begin() {
    enter(manager_, Peer::State::kConnecting);
    if (Status begun = link_.connect(); !begun) standing_.fail(std::move(begun));
    manager_.connection = link_.connection();
}

void Peers::begin_with(View view) {
    WEIR_CHECK(shards_.empty());
    standing_.enter(Phase::kConnectingToShards);
    view_ = std::move(view);
    count_at_start_ = static_cast<uint32_t>(view_.workers().size());
    note_shards();
    for (const ViewShard& shard : view_.shards()) {
        Peer& peer = shards_[shard.number];
        Result<ConnectionId> connection = endpoint_.connect(shard.address);
        if (!connection) {
            return standing_.fail(Error(
                connection.code(),
                fmt::format("cannot connect to {}: {}", peer.name, connection.error().message())));
        }
        peer.connection = *connection;
        enter(peer, Peer::State::kConnecting);
    }
}

void Peers::connected(ConnectionId connection) {
    if (link_.owns(connection)) {
        const bool is_first = link_.connected();
        if (is_first && standing_.phase() == Phase::kConnectingToManager) join_job();
    } else {
        Peer* const peer = find(connection);
        if (peer != nullptr && peer->state() == Peer::State::kConnecting) opened(*peer);
    }
    endpoint_.flush();
    become_ready_if_connected();
}

void Peers::join_job() {
    enter(manager_, Peer::State::kOpen);
    standing_.enter(Phase::kJoining);
    const ClientCoreOptions& options = standing_.options();
    JoinMessage join{JoinMessage::Role::kWorker, options.rank, options.worker, {}};
    join.joiner = options.joiner;
    join.has_iterations = options.has_iterations;
    join.pass = pass_;
    send_to_manager(Kind::kJoin, join.encode());
}

void Peers::opened(Peer& peer) {
    enter(peer, Peer::State::kOpen);
    const transport::Capabilities can = endpoint_.capabilities_of(peer.connection);
    peer.maps_memory = can.maps_memory;
    peer.copied_bytes_max = can.copied_bytes_max;
    peer.link.opened();
    peer.flush_is_a_call = can.flush_is_a_call;
    peer.opened_ns = clock_.now_ns();
    peer.connect_at_ns = 0;
    peer.lane.not_before_ns = 0;
    ++peer.hello;
    peer.is_greeted = false;
    (void)greet(peer);
}

void Peers::become_ready_if_connected() {
    if (standing_.phase() != Phase::kConnectingToShards) return;
    for (const Peer& peer : shards_) {
        if (!peer.is_open() && peer.state() != Peer::State::kGone) return;
    }
    if (!manager_.is_open()) return;
    standing_.enter(Phase::kReady);
    if (standing_.is_admitted()) send_to_manager(Kind::kAdmit, {});
}

void Peers::send_to_manager(Kind kind, std::span<const std::byte> body) {
    link_.send(wire::header_of(kind), body);
    endpoint_.flush();
}

bool Peers::greet(Peer& peer) {
    WEIR_CHECK(peer.is_open() && peer.hello > 0);
    wire::FrameHeader header = wire::header_of(Kind::kHello);
    header.request = peer.hello;
    header.first = standing_.options().worker;
    const std::vector<std::byte> body = HelloMessage{pass_}.encode();
    header.body_bytes = static_cast<uint32_t>(body.size());
    const std::array<std::span<const std::byte>, 2> parts{wire::bytes_of(header), body};
    peer.is_greeted = endpoint_.send(peer.connection, parts) == transport::Post::kPosted;
    return peer.is_greeted;
}

bool Peers::adopt(View view) {
    WEIR_CHECK(view.epoch() > view_.epoch());
    view_ = std::move(view);
    bool was_held = false;
    for (Peer& peer : shards_) {
        peer.is_leaving = false;
        if (!std::exchange(peer.is_held, false)) continue;
        was_held = true;
        peer.lane.begin_orders_anew();
    }
    note_shards();
    return was_held;
}

/// Peers are as view_ has the shards, and owners_ too.
void Peers::note_shards() {
    if (view_.data().next_shard > shards_.size()) shards_.resize(view_.data().next_shard);
    for (uint32_t i = 0; i < shards_.size(); ++i) {
        Peer& peer = shards_[i];
        const ViewShard* const shard = view_.shard(i);
        if (shard == nullptr) {
            if (peer.state() != Peer::State::kGone) enter(peer, Peer::State::kGone);
            continue;
        }
        peer.address = shard->address;
        if (peer.state() != Peer::State::kGone) continue;
        // Of a first view nobody knows who was there from the start.
        peer.name = shard_name(view_, *shard, standing_.phase() != Phase::kConnectingToShards);
        enter(peer, Peer::State::kBroken);
    }
    owners_.clear();
    for (const ViewSegment& segment : view_.segments()) {
        if (segment.primary != kNoShard) owners_.push_back(segment.primary);
    }
    std::ranges::sort(owners_);
    owners_.erase(std::unique(owners_.begin(), owners_.end()), owners_.end());
}

void Peers::connect_again(uint64_t now_ns) {
    if (standing_.phase() < Phase::kConnectingToShards || standing_.has_failed()) return;
    for (Peer& peer : shards_) {
        const bool is_broken = peer.state() == Peer::State::kBroken;
        if (!is_broken || now_ns < peer.connect_at_ns || peer.is_held) continue;
        const Result<ConnectionId> connection = endpoint_.connect(peer.address);
        if (connection) {
            peer.connection = *connection;
            enter(peer, Peer::State::kConnecting);
        } else {
            peer.connect_at_ns = now_ns + peer.pause_ns;
            peer.pause_ns = longer_pause(peer.pause_ns);
        }
    }
}

uint64_t Peers::longer_pause(uint64_t pause_ns) noexcept {
    return std::clamp(2 * pause_ns, kMillisecond, kConnectPauseNsMax);
}

void Peers::break_connection(Peer& peer, uint64_t now_ns) {
    WEIR_CHECK(peer.is_connected() && &peer != &manager_);
    const bool has_lasted = peer.is_open() && now_ns - peer.opened_ns >= kConnectPauseNsMax;
    if (has_lasted) peer.pause_ns = 0;
    enter(peer, Peer::State::kBroken);
    peer.closing = Peer::Closing::kNot;
    peer.connect_at_ns = now_ns + peer.pause_ns;
    peer.pause_ns = longer_pause(peer.pause_ns);
    peer.lane.forget_orders();
}

void Peers::close(Peer& peer, Errc fault) {
    if (fault != Errc::kOk) {
        peer.closing = Peer::Closing::kAtFault;
        peer.fault = fault;
    } else {
        WEIR_CHECK(peer.closing == Peer::Closing::kNot);
        peer.closing = Peer::Closing::kAnew;
    }
    endpoint_.close(peer.connection);
}

void Peers::refuse(ConnectionId connection, std::string_view why) {
    log(LogLevel::kWarning, "{}: closing the connection to {}: it sent {}", standing_.name(),
        endpoint_.peer_name(connection), why);
    // Its requests end when it is closed.
    Peer* const peer = find(connection);
    peer == nullptr ? endpoint_.close(connection) : close(*peer, Errc::kProtocol);
}

void Peers::leave_shards() {
    standing_.enter(Phase::kAway);
    for (Peer& peer : shards_) {
        if (peer.state() == Peer::State::kGone) continue;
        if (peer.is_connected()) endpoint_.close(peer.connection);
        enter(peer, Peer::State::kLost);
    }
}

uint64_t Peers::connect_at_ns() const noexcept {
    uint64_t at_ns = ~uint64_t{0};
    for (const Peer& peer : shards_) {
        if (peer.state() == Peer::State::kBroken && !peer.is_held)
            at_ns = std::min(at_ns, peer.connect_at_ns);
    }
    return at_ns;
}

}  // namespace weir

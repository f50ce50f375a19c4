// SPDX-License-Identifier: Apache-2.0
/// \file
/// How a client joins its job, and what becomes of its requests when a connection closes.

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/core.h>

#include "lib/node/lost_ranges.h"
#include "lib/node/manager_names.h"
#include "lib/worker/client_core.h"
#include "transport/net/own_address.h"

namespace weir {

using transport::ConnectionId;
using wire::Kind;

namespace {

constexpr uint64_t kPauseNsMax = 100 * kMillisecond;  // between two attempts to connect
/// Before the first attempt, if the shard has closed the connection in order: mostly its server has
/// left, and the next view says so.
constexpr uint64_t kPauseOfLeaverNs = kSecond;

/// Behind "is gone", of a peer whose connection is closed for this reason.
std::string how_it_went(Errc why) {
    if (why == Errc::kOk) return "; it has closed the connection";
    return fmt::format(" ({}); it died or the network to it is cut", to_string(why));
}

}  // namespace

void ClientCore::connected(ConnectionId connection) {
    for (uint32_t i = 0; i < peers_.size(); ++i) {
        Peer& peer = peers_[i];
        if (i == manager() && to_manager_.owns(connection)) {
            if (!to_manager_.connected()) break;
            peer.state = Peer::State::kOpen;
            phase_ = Phase::kJoining;
            JoinMessage join{JoinMessage::Role::kWorker, options_.rank, options_.worker, {}};
            join.joiner = options_.joiner;
            join.has_iterations = options_.has_iterations;
            join.pass = pass_;
            send_to_manager(Kind::kJoin, join.encode());
            break;
        }
        if (peer.connection != connection || peer.state != Peer::State::kConnecting) continue;
        peer.state = Peer::State::kOpen;
        const transport::Capabilities can = endpoint_->capabilities_of(connection);
        peer.maps_memory = can.maps_memory;
        peer.copied_bytes_max = can.copied_bytes_max;
        peer.flush_is_a_call = can.flush_is_a_call;
        peer.opened_ns = clock_.now_ns();
        ++peer.hello;
        peer.is_greeted = false;
        peer.not_before_ns = 0;
        (void)greet(peer);
    }
    endpoint_->flush();
    begin_if_connected();
}

/// A connection to every shard is open: calls may be made.
void ClientCore::begin_if_connected() {
    if (phase_ != Phase::kConnectingToShards) return;
    for (const Peer& peer : peers_) {
        if (peer.state != Peer::State::kOpen && peer.state != Peer::State::kGone) return;
    }
    phase_ = Phase::kReady;
    if (is_admitted_) send_to_manager(Kind::kAdmit, {});
}

/// A frame that needs no request.
void ClientCore::send_to_manager(Kind kind, std::span<const std::byte> body) {
    to_manager_.send(wire::header_of(kind), body);
    endpoint_->flush();
}

size_t ClientCore::poll_link() {
    const size_t done = to_manager_.poll(name());
    peers_.back().connection = to_manager_.connection();
    if (const auto leader = to_manager_.take_new_leader())
        note_event({JobEvent::Kind::kManagerLeads, *leader});
    const std::optional<Error> end = to_manager_.take_end();
    if (end && peers_.back().state != Peer::State::kLost) lose_manager(*end);
    return done;
}

/// The connection is closed. Whether it is the manager's, and is made anew.
bool ClientCore::goes_on_without(ConnectionId connection) {
    if (!to_manager_.owns(connection) || peers_.back().fault != Errc::kOk) return false;
    return to_manager_.closed();
}

/// For good: nobody says any more who lives. That is the reason for all that ends with it, so it comes first
/// in their errors.
void ClientCore::lose_manager(const Status& why) {
    std::string text = why.error().text();
    if (phase_ >= Phase::kReady) {
        text += job_ends_without_manager(options_.link.manager.get(), has_copies(),
                                         options_.checkpoint_folder);
    }
    manager_end_ = Error(why.code(), std::move(text));
    lose(manager(), *manager_end_);
    held_failures_.blame(*manager_end_);
    for (uint32_t shard = 0; shard < manager(); ++shard) {
        if (peers_[shard].state == Peer::State::kBroken) shard_died(shard, {});
    }
}

/// The number of a worker that joins a running job.
void ClientCore::admitted(std::span<const std::byte> body) {
    const auto message = AdmitMessage::decode(body);
    if (!message || options_.joiner == 0 || is_admitted_ || phase_ != Phase::kJoining) {
        return fail(
            Error(Errc::kProtocol, "the manager admitted a worker that did not ask for it"));
    }
    is_admitted_ = true;
    options_.worker = message->number;
    tasks_.set_client(message->number);
    options_.rank = message->rank;
}

/// Sends the hello of a new connection to a shard. False: not now; it goes before the first
/// request.
bool ClientCore::greet(Peer& peer) {
    wire::FrameHeader header = wire::header_of(Kind::kHello);
    header.request = peer.hello;
    header.first = options_.worker;
    const std::vector<std::byte> body = HelloMessage{pass_}.encode();
    header.body_bytes = static_cast<uint32_t>(body.size());
    const std::array<std::span<const std::byte>, 2> parts{wire::bytes_of(header), body};
    peer.is_greeted = endpoint_->send(peer.connection, parts) == transport::Post::kPosted;
    return peer.is_greeted;
}

void ClientCore::closed(ConnectionId connection, Errc why, bool memory_in_doubt) {
    if (goes_on_without(connection)) return;
    for (uint32_t i = 0; i < peers_.size(); ++i) {
        Peer& peer = peers_[i];
        const bool is_connected =
            peer.state == Peer::State::kConnecting || peer.state == Peer::State::kOpen;
        if (peer.connection != connection || !is_connected) continue;
        if (peer.fault != Errc::kOk) why = peer.fault;
        // A device that gives up connecting reports no more than kDeadline.
        const bool is_new = peer.state == Peer::State::kConnecting && peer.hello == 0;
        const bool never_came = is_new && why == Errc::kDeadline;
        if (memory_in_doubt) {
            requests_.for_each([&](uint64_t, Request& request) {
                if (request.peer == i && request.state == Request::State::kSent)
                    request.is_in_doubt = wire::is_request(request.header.kind);
            });
        }
        const Status lost =
            never_came ? no_answer_from(peer.name)
            : is_new && why == Errc::kPeerLost
                ? Error(why, fmt::format("{} cannot be reached; check that it runs; {}", peer.name,
                                         transport::kBindAdvice))
            : peer.is_closing && peers_.back().state == Peer::State::kLost
                ? Error(Errc::kPeerLost,
                        fmt::format("the connection to {} was closed for a call whose deadline "
                                    "had come{}",
                                    peer.name, memory_in_doubt ? kMemoryNotReleased : ""))
                : Error(Errc::kPeerLost, fmt::format("{} is gone{}{}", peer.name, how_it_went(why),
                                                     memory_in_doubt ? kMemoryNotReleased : ""));
        const bool is_leaving = next_view_ && i != manager() && next_view_->shard(i) == nullptr;
        const bool may_live = i != manager() && !peer.is_dead && peer.fault == Errc::kOk &&
                              peers_.back().state == Peer::State::kOpen &&
                              (phase_ == Phase::kReady || phase_ == Phase::kLeft ||
                               phase_ == Phase::kConnectingToShards);
        const bool has_left = why == Errc::kOk && !peer.is_closing;
        peer.is_closing = false;
        if (i == manager()) return lose_manager(lost);
        if (!may_live && !is_leaving) return lose(i, lost);
        if (phase_ == Phase::kConnectingToShards) peer.trouble = lost.error().text();
        keep_for_next_connection(i);
        if (has_left) peer.not_before_ns = clock_.now_ns() + kPauseOfLeaverNs;
        return;
    }
}

/// The connection is broken; the shard may live. Its requests wait until there is another connection,
/// or until the manager says that the shard is dead, or until their deadlines.
///
/// If the shard did not confirm the end of the connection, it may still read and write their memory.
/// It no longer does once it answers them on another connection: the hello of that one has ended the
/// old one there.
void ClientCore::keep_for_next_connection(uint32_t i) {
    Peer& peer = peers_[i];
    const uint64_t now_ns = clock_.now_ns();
    const bool has_lasted =
        peer.state == Peer::State::kOpen && now_ns - peer.opened_ns >= kPauseNsMax;
    if (has_lasted) peer.pause_ns = 0;
    peer.state = Peer::State::kBroken;
    ++broken_count_;
    peer.orders.clear();
    peer.not_before_ns = now_ns + peer.pause_ns;
    peer.pause_ns = std::clamp(2 * peer.pause_ns, kMillisecond, kPauseNsMax);
    std::vector<uint64_t> kept;
    requests_.for_each([&](uint64_t id, Request& request) {
        if (request.peer != i || request.state != Request::State::kSent) return;
        request.state = Request::State::kUnsent;
        kept.push_back(id);
    });
    if (!kept.empty()) next_deadline_ns_ = 0;  // calls that are withdrawn may end now
    queue_again(peer, std::move(kept));
}

/// The peer is dead, or as good as dead. Its requests end.
void ClientCore::lose(uint32_t i, const Status& why) {
    Peer& peer = peers_[i];
    const bool is_shard = i != manager();
    if (is_shard && manager_end_ && peer.loss.empty()) peer.loss = loss_of_server(i);
    const auto with_cause = [&](const Error& error) {
        return is_shard ? cause_first(add_loss(error, peer)) : error;
    };
    const Error with_loss = with_cause(why.error());
    if (peer.state == Peer::State::kBroken) --broken_count_;
    peer.state = Peer::State::kLost;
    waiting_count_ -= peer.waiting.size();
    peer.waiting.clear();
    requests_.for_each([&](uint64_t id, Request& request) {
        if (request.peer != i) {
            // Without that shard, the other workers will not come to the barrier either.
            Call* const call = calls_.find(request.call);
            const bool at_barrier = request.header.kind == Kind::kBarrier;
            if (at_barrier && call != nullptr) call->fail(with_loss);
            return;
        }
        if (request.state == Request::State::kKeptAside) return;
        Call* const call = calls_.find(request.call);
        if (call != nullptr && !call->has_ended())
            call->note_error(with_cause(with_keys(why, request)));
        end_request(id, request);
    });
    if (is_shard) held_failures_.blame(with_loss);
    withdraw_from_manager();
    // Without the server, if the next view does.
    const bool may_go_on = is_shard && (is_admitted_ || peer.fault == Errc::kOk);
    if (phase_ < Phase::kReady && !may_go_on) fail(with_loss);
}

/// The manager says that a shard is dead, or there is no manager any more that could say it. A
/// connection that is open still counts until it closes. `loss`: what is lost with it, if that is known.
void ClientCore::shard_died(uint64_t shard, std::string loss) {
    if (shard >= manager()) return;
    Peer& peer = peers_[shard];
    peer.is_dead = true;
    peer.loss = std::move(loss);
    if (peer.state == Peer::State::kOpen || peer.state == Peer::State::kLost ||
        peer.state == Peer::State::kGone) {
        return;
    }
    if (peer.state == Peer::State::kConnecting) endpoint_->close(peer.connection);
    lose(static_cast<uint32_t>(shard),
         Error(Errc::kPeerLost,
               fmt::format("{} is gone; it died or the network to it is cut", peer.name)));
}

Error ClientCore::gone(const Peer& peer, const Request& request) const {
    if (&peer == &peers_.back() && manager_end_) return *manager_end_;
    const Error why(Errc::kPeerLost,
                    fmt::format("{} is gone: it died or the network to it is cut", peer.name));
    return cause_first(add_loss(with_keys(why, request), peer));
}

/// `why` a shard is gone, behind why the manager is, if that is known.
Error ClientCore::cause_first(Error why) const {
    if (!manager_end_) return why;
    return {why.code(), fmt::format("{}; {}", manager_end_->text(), why.text())};
}

bool ClientCore::has_copies() const noexcept {
    return std::ranges::any_of(view_.segments(), [](const ViewSegment& segment) {
        return segment.backup_count() > 0 || segment.has_learner();
    });
}

/// What nobody has any more, now that the shard's server is gone, as far as this client knows the tables: there
/// is no manager to say it. Empty if others have all of it, or there is nothing.
std::string ClientCore::loss_of_server(uint32_t shard) const {
    const ViewShard* const lost = view_.shard(shard);
    if (lost == nullptr) return {};
    std::vector<PositionRange> ranges;
    double share = 0;
    for (size_t i = 0; i < view_.segments().size(); ++i) {
        const ViewSegment& segment = view_.segments()[i];
        std::vector<uint32_t> holders(segment.backups.begin(),
                                      segment.backups.begin() + segment.backup_count());
        holders.push_back(segment.primary);
        const auto is_its = [&](uint32_t holder) {
            const ViewShard* const one = view_.shard(holder);
            return one != nullptr && one->server == lost->server;
        };
        const auto is_gone = [&](uint32_t holder) {
            return is_its(holder) || view_.shard(holder) == nullptr ||
                   peers_[holder].state != Peer::State::kOpen;
        };
        if (std::ranges::none_of(holders, is_its) || !std::ranges::all_of(holders, is_gone))
            continue;
        ranges.push_back(view_.range(i));
        share += static_cast<double>(position_count(view_.data().segments, i)) * 0x1p-64;
    }
    if (ranges.empty()) return {};
    return fmt::format(
        "{:.3g} % of the parameters at least are lost with its server, because nobody else has "
        "them: {}",
        share * 100, lost_ranges(PositionSet(ranges), schemas_));
}

/// `why` nothing more is to be had of the peer, with what the job has lost.
Error ClientCore::add_loss(const Error& why, const Peer& peer) {
    if (peer.loss.empty()) return why;
    return {why.code(), fmt::format("{}; {}", why.text(), peer.loss)};
}

/// `why` with the keys that the call has there, if it has some, and what became of them if they were
/// pushed. Not of a call that has ended: its keys may be gone.
Error ClientCore::with_keys(const Status& why, const Request& request) {
    const wire::FrameHeader& header = request.header;
    std::string text = why.error().text();
    const bool is_range = (header.flags & wire::kKeysRange) != 0;
    if (wire::is_request(header.kind) && header.count > 0 && (is_range || !request.keys.empty())) {
        const uint64_t first = is_range ? header.first : request.keys.front();
        const uint64_t last = is_range ? header.first + header.count - 1 : request.keys.back();
        text += fmt::format("; it has {} keys of this call, {} to {}", header.count, first, last);
    }
    return {why.code(), text.append(fate_of_push(header.kind))};
}

void ClientCore::connect_again(uint64_t now_ns) {
    if (phase_ < Phase::kConnectingToShards || phase_ == Phase::kFailed) return;
    for (uint32_t i = 0; i < manager(); ++i) {
        Peer& peer = peers_[i];
        if (peer.state != Peer::State::kBroken || now_ns < peer.not_before_ns || peer.is_held)
            continue;
        const Result<ConnectionId> connection = endpoint_->connect(view_.shard(i)->address);
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

/// Closes the connections to the shards, once a worker that has left has no open requests. Else it
/// would connect anew when shards close them.
void ClientCore::leave_shards() {
    is_at_shards_ = false;
    for (Peer& peer : std::span(peers_).first(manager())) {
        if (peer.state == Peer::State::kGone) continue;
        if (peer.state == Peer::State::kBroken) --broken_count_;
        const bool is_connected =
            peer.state == Peer::State::kOpen || peer.state == Peer::State::kConnecting;
        if (is_connected) endpoint_->close(peer.connection);
        peer.state = Peer::State::kLost;
    }
}

Error ClientCore::no_answer_from(std::string_view whom) const {
    return {Errc::kDeadline,
            fmt::format("no answer from {} within {} s; check that it runs and can be reached; {}",
                        whom, (clock_.now_ns() - started_ns_) / kSecond, transport::kBindAdvice)};
}

}  // namespace weir

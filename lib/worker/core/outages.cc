// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/core/outages.h"

#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lib/base/check.h"
#include "lib/node/manager_names.h"
#include "transport/net/own_address.h"

namespace weir {

using Phase = Standing::Phase;
using wire::Kind;

namespace {

/// Before the first attempt to connect again, if the shard has closed the connection in order: mostly its
/// server has left, and the next view says so.
constexpr uint64_t kPauseOfLeaverNs = kSecond;

/// Behind "is gone", of a peer whose connection is closed for this reason.
std::string how_it_went(Errc why) {
    if (why == Errc::kOk) return "; it has closed the connection";
    return fmt::format(" ({}); it died or the network to it is cut", to_string(why));
}

}  // namespace

void Outages::closed(transport::ConnectionId connection, const End& reported) {
    Peer& manager = peers_.manager();
    const bool may_go_on = manager.fault == Errc::kOk;
    if (peers_.link().owns(connection) && may_go_on && peers_.link().closed()) return;
    uint32_t number = Peers::kManager;
    Peer* peer = nullptr;
    peers_.for_each([&](uint32_t its_number, Peer& one) {
        if (one.connection != connection || !one.is_connected() || peer != nullptr) return;
        number = its_number;
        peer = &one;
    });
    if (peer == nullptr) return;
    End end = reported;
    if (peer->fault != Errc::kOk) end.why = peer->fault;
    requests_.for_each([&](uint64_t, ClientRequest& request) {
        const bool is_its =
            request.peer == number && request.state() == ClientRequest::State::kSent;
        const Content& content = request.content();
        const bool has_memory = content.is_piece() || content.is_scan();
        if (end.memory_in_doubt && is_its && has_memory) request.doubt();
    });
    const Error lost = error_of(*peer, end);
    const Fate fate = fate_of(*peer);
    const bool has_left =
        end.why == Errc::kOk && peer->closing == Peer::Closing::kNot && peer != &manager;
    peer->closing = Peer::Closing::kNot;
    if (peer == &manager) return lose_manager(lost);
    if (fate == Fate::kLost) return lose(number, lost);
    if (standing_.phase() == Phase::kConnectingToShards) peer->trouble = lost.text();
    keep_for_next_connection(number);
    if (has_left) peer->connect_at_ns = clock_.now_ns() + kPauseOfLeaverNs;
}

Outages::Fate Outages::fate_of(const Peer& peer) const {
    if (peer.is_leaving && !standing_.has_failed()) return Fate::kBroken;
    const Phase phase = standing_.phase();
    const bool may_live =
        !peer.is_dead && peer.fault == Errc::kOk && peers_.manager().is_open() &&
        (phase == Phase::kReady || phase == Phase::kLeft || phase == Phase::kConnectingToShards);
    return may_live ? Fate::kBroken : Fate::kLost;
}

Error Outages::error_of(const Peer& peer, const End& end) const {
    const bool is_new = peer.state() == Peer::State::kConnecting && peer.hello == 0;
    // A device that gives up connecting reports no more than kDeadline.
    if (is_new && end.why == Errc::kDeadline) return peers_.no_answer_from(peer.name);
    if (is_new && end.why == Errc::kPeerLost) {
        return {end.why, fmt::format("{} cannot be reached; check that it runs; {}", peer.name,
                                     transport::kBindAdvice)};
    }
    const char* const doubt = end.memory_in_doubt ? kMemoryNotReleased : "";
    const bool was_withdrawn = peer.closing == Peer::Closing::kAnew;
    if (was_withdrawn && peers_.manager().state() == Peer::State::kLost) {
        return {Errc::kPeerLost, fmt::format("the connection to {} was closed for a call whose "
                                             "deadline had come{}",
                                             peer.name, doubt)};
    }
    return {Errc::kPeerLost, fmt::format("{} is gone{}{}", peer.name, how_it_went(end.why), doubt)};
}

/// The connection is broken; the shard may live. Its requests wait until there is another connection,
/// or until the manager says that the shard is dead, or until their deadlines.
///
/// If the shard did not confirm the end of the connection, it may still read and write their memory.
/// It no longer does once it replies to them on another connection: the hello of that one has ended the
/// old one there.
void Outages::keep_for_next_connection(uint32_t number) {
    Peer& peer = peers_[number];
    peers_.break_connection(peer, clock_.now_ns());
    std::vector<uint64_t> kept;
    requests_.for_each([&](uint64_t id, ClientRequest& request) {
        if (request.peer != number || request.state() != ClientRequest::State::kSent) return;
        request.enter(ClientRequest::State::kUnsent);
        kept.push_back(id);
    });
    if (!kept.empty()) deadlines_.look_soon();
    sender_.send_again(peer, std::move(kept));
}

/// The peer is dead, or as good as dead. Its requests end.
void Outages::lose(uint32_t number, const Error& why) {
    Peer& peer = peers_[number];
    const bool is_shard = number != Peers::kManager;
    if (is_shard && peers_.manager_end() && peer.loss.empty())
        peer.loss = peers_.loss_of_server(number, tables_.schemas());
    const Error with_loss = is_shard ? peers_.with_cause(why, peer) : why;
    peers_.lose(peer);
    (void)sender_.take_waiting(peer);
    end_requests_of(number, why, with_loss);
    if (is_shard) replies_.blame(with_loss);
    control_.withdraw_from_manager();
    // Without the server, if the next view does.
    const bool may_go_on = is_shard && (standing_.is_admitted() || peer.fault == Errc::kOk);
    if (!standing_.has_begun() && !may_go_on) standing_.fail(with_loss);
}

void Outages::end_requests_of(uint32_t number, const Error& why, const Error& with_loss) {
    const Peer& peer = peers_[number];
    requests_.for_each([&](uint64_t id, ClientRequest& request) {
        Call* const call = calls_.find(request.call);
        if (request.peer != number) {
            // Without that shard, the other workers will not come to the barrier either.
            if (request.content().kind == Kind::kBarrier && call != nullptr) call->fail(with_loss);
            return;
        }
        if (request.state() == ClientRequest::State::kKeptAside) return;
        if (call != nullptr && !call->has_ended()) {
            const Error with_its_keys = with_keys(why, request.content());
            call->note_error(number == Peers::kManager ? with_its_keys
                                                       : peers_.with_cause(with_its_keys, peer));
        }
        requests_.end(id, request);
    });
}

void Outages::lose_manager(const Error& why) {
    std::string text = why.text();
    if (standing_.has_begun()) {
        const ClientCoreOptions& options = standing_.options();
        text += job_ends_without_manager(options.link.manager.get(), peers_.has_backups(),
                                         options.checkpoint_folder);
    }
    const Error end(why.code(), std::move(text));
    peers_.set_manager_end(end);
    lose(Peers::kManager, end);
    replies_.blame(end);
    for (uint32_t shard = 0; shard < peers_.shard_count(); ++shard) {
        if (peers_[shard].state() == Peer::State::kBroken) shard_died(shard, {});
    }
}

void Outages::shard_died(uint64_t shard, std::string loss) {
    if (shard >= peers_.shard_count()) return;
    const auto number = static_cast<uint32_t>(shard);
    Peer& peer = peers_[number];
    peer.is_dead = true;
    peer.loss = std::move(loss);
    const bool is_connecting = peer.state() == Peer::State::kConnecting;
    if (!is_connecting && peer.state() != Peer::State::kBroken) return;
    if (is_connecting) endpoint_.close(peer.connection);
    lose(number, Error(Errc::kPeerLost,
                       fmt::format("{} is gone; it died or the network to it is cut", peer.name)));
}

void Outages::job_failed(Status why) {
    if (standing_.has_failed()) return;
    standing_.end(std::move(why));
    const Status& failure = standing_.failure();
    calls_.for_each([&](Calls::Id id, Call& call) {
        requests_.call_needs_caller(id) ? call.note_error(failure) : call.fail(failure);
    });
    cut_off_requests();
    peers_.link().end();  // it waits for nothing more from this worker
}

void Outages::cut_off_requests() {
    WEIR_CHECK(standing_.has_failed());
    const Error why = standing_.failure().error();
    for (uint32_t i = 0; i < peers_.shard_count(); ++i) {
        if (peers_[i].state() == Peer::State::kBroken) lose(i, why);
    }
    const bool has_manager = peers_.link().connection() != 0;
    if (!has_manager && peers_.manager().state() != Peer::State::kLost) lose(Peers::kManager, why);
    requests_.for_each([&](uint64_t, const ClientRequest& request) {
        Peer& peer = peers_[request.peer];
        if (peer.state() == Peer::State::kLost || peer.fault != Errc::kOk) return;
        peers_.close(peer, Errc::kCancelled);
    });
}

}  // namespace weir

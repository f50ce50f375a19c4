// SPDX-License-Identifier: Apache-2.0
/// \file
/// Deadlines of calls, and signs of life: calls that may take long must not hide that a server has
/// stopped.

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lib/node/life_line.h"
#include "lib/node/manager_names.h"
#include "lib/worker/client_core.h"

namespace weir {

using wire::Kind;

namespace {

/// A connection is closed for calls that are withdrawn only after so long: closing it delays all that
/// other calls have open there.
constexpr uint64_t kConnectionNsMin = 100 * kMillisecond;

}  // namespace

/// What the error of a call that was withdrawn, or whose server is lost, has to say of a push.
std::string_view ClientCore::fate_of_push(Kind kind) {
    return kind == Kind::kPush ? "; the push may have been applied, once at most" : "";
}

/// Sends the call's requests, then sets its deadline: reading the clock takes as long as writing
/// a short message, so it must not delay them.
void ClientCore::send_off(Call& call, uint64_t deadline_ns) {
    const bool has_others = call.open_requests < requests_.in_use();
    const bool may_wait = std::exchange(may_wait_, std::nullopt).value_or(false) && has_others;
    if (!may_wait) endpoint_->flush();
    const uint64_t now_ns = clock_.now_ns();
    if (!may_wait) {
        departures_.left(now_ns);
    } else if (departures_.are_due(now_ns)) {
        endpoint_->flush();
    }
    call.deadline_ns = now_ns + (deadline_ns != 0 ? deadline_ns : options_.deadline_ns);
    call.next_sign_ns = now_ns + sign_period_ns();
    next_deadline_ns_ = std::min({next_deadline_ns_, call.deadline_ns, call.next_sign_ns});
}

void ClientCore::expire(uint64_t now_ns) {
    expire_join(now_ns);
    if (now_ns < next_deadline_ns_) return;
    // Servers that live give signs of life, though their answers may wait for leases from the manager.
    const ManagerLife* const life = options_.link.manager.get();
    const bool is_manager_silent = life != nullptr && life->is_silent;
    next_deadline_ns_ = tasks_.expire(now_ns);
    requests_.for_each([&](uint64_t, Request& request) {
        Call* const call = calls_.find(request.call);
        if (call == nullptr || call->has_ended()) return;
        if (now_ns >= call->deadline_ns) {
            if (!call->is_withdrawn)
                withdraw(*call, request, {Errc::kDeadline, text_of_deadline(request)});
            return;
        }
        next_deadline_ns_ = std::min(next_deadline_ns_, call->deadline_ns);
        if (now_ns < call->next_sign_ns) return;
        peers_[request.peer].asks_for_sign = true;
        if (is_manager_silent && !call->is_withdrawn) {
            withdraw(*call, request,
                     {Errc::kPeerLost, manager_is_silent(life)
                                           .append(fate_of_push(request.header.kind))
                                           .append(start_again_text(options_.checkpoint_folder))});
        }
    });
    take_signs_of_life();
    end_withdrawn(now_ns);
    ask_for_signs_of_life(now_ns);
    withdraw_from_manager();
}

/// The call ends with that error, unless it has one, as soon as no server reaches its memory.
void ClientCore::withdraw(Call& call, const Request& request, Error why) {
    call.is_withdrawn = true;
    call.note_error(std::move(why));
    if (!wire::is_request(request.header.kind)) call.end();
}

std::string ClientCore::text_of_deadline(const Request& request) const {
    if (request.header.kind == Kind::kBarrier) {
        return "not all workers came to the barrier in the time that the call was given; without "
               "one it waits for as long as they compute";
    }
    const bool asks_for_share = request.header.first == static_cast<uint64_t>(WorkAsk::kTake);
    if (request.header.kind == Kind::kWork && asks_for_share)
        return "not all workers asked for work before the deadline";
    std::string text =
        fmt::format("{} did not answer before the deadline", peers_[request.peer].name);
    if (wire::is_request(request.header.kind))
        text = fmt::format("{}: {}", table_text(request.header.table), text);
    if (request.header.iteration != 0) {
        text += fmt::format(
            "; it may still wait for another worker's part of iteration {}: without a deadline of "
            "its own the call waits for as long as that one computes",
            request.header.iteration);
    }
    return text.append(fate_of_push(request.header.kind));
}

/// Ends the calls that are withdrawn and whose memory no server reaches. For the others it closes the
/// connections of the servers that do.
void ClientCore::end_withdrawn(uint64_t now_ns) {
    std::vector<CallId> withdrawn;
    calls_.for_each([&](CallId id, const Call& call) {
        if (call.is_withdrawn && !call.has_ended()) withdrawn.push_back(id);
    });
    if (withdrawn.empty()) return;
    std::vector<CallId> reached;
    requests_.for_each([&](uint64_t, Request& request) {
        const Call* const call = calls_.find(request.call);
        if (call == nullptr || !call->is_withdrawn || call->has_ended()) return;
        const bool is_unsent = request.state == Request::State::kUnsent;
        if (request.is_in_doubt && is_unsent) {
            const bool is_part = (request.header.flags & wire::kAggregate) != 0;
            return is_part ? send_as_failed(request, Errc::kDeadline) : abandon_request(request);
        }
        Peer& peer = peers_[request.peer];
        if (!is_caller_reached(request)) return;
        reached.push_back(request.call);
        close_for_withdrawn(peer, now_ns);
    });
    for (const CallId id : withdrawn) {
        Call* const call = calls_.find(id);
        if (call != nullptr && !std::ranges::count(reached, id)) call->end();
    }
}

void ClientCore::close_for_withdrawn(Peer& peer, uint64_t now_ns) {
    if (peer.is_closing || peer.state != Peer::State::kOpen) return;
    if (now_ns - peer.opened_ns < kConnectionNsMin) {
        next_deadline_ns_ = std::min(next_deadline_ns_, peer.opened_ns + kConnectionNsMin);
        return;
    }
    peer.is_closing = true;
    endpoint_->close(peer.connection);
}

void ClientCore::expire_join(uint64_t now_ns) {
    if (phase_ >= Phase::kReady || now_ns - started_ns_ <= options_.join_timeout_ns) return;
    std::string whom = peers_.back().name;
    std::string trouble;
    if (phase_ == Phase::kConnectingToShards) {
        for (const Peer& peer : peers_) {
            if (peer.state != Peer::State::kConnecting && peer.state != Peer::State::kBroken)
                continue;
            whom = peer.name;
            trouble = peer.trouble;
        }
    }
    if (trouble.empty()) return fail(no_answer_from(whom));
    fail(Error(Errc::kPeerLost, fmt::format("{}; it was tried for {} s", trouble,
                                            options_.join_timeout_ns / kSecond)));
}

/// A call with a longer deadline than usual waits for other workers. This must not hide that a
/// server has stopped. So each server, or the manager, that such a call waits for must answer a
/// request that waits for no worker, twice within the usual deadline.
void ClientCore::ask_for_signs_of_life(uint64_t now_ns) {
    calls_.for_each([&](CallId, Call& call) {
        if (call.has_ended() || call.deadline_ns <= now_ns) return;
        if (call.next_sign_ns <= now_ns) call.next_sign_ns = now_ns + sign_period_ns();
        next_deadline_ns_ = std::min(next_deadline_ns_, call.next_sign_ns);
    });
    for (uint32_t i = 0; i < peers_.size(); ++i) {
        Peer& peer = peers_[i];
        if (!std::exchange(peer.asks_for_sign, false)) continue;
        // A connection that is broken counts, too: it may break each time that it is made.
        const bool may_answer = peer.state == Peer::State::kOpen ||
                                peer.state == Peer::State::kBroken ||
                                peer.state == Peer::State::kConnecting;
        if (peer.sign != 0 || !may_answer || peer.is_held) continue;
        if (i == manager() && to_manager_.is_broken()) continue;  // it is made anew
        peer.sign = control(i, Kind::kStats, {}, sign_period_ns());
    }
}

/// Fails the open calls to a server that did not give a sign of life in time.
void ClientCore::take_signs_of_life() {
    for (uint32_t i = 0; i < peers_.size(); ++i) {
        Peer& peer = peers_[i];
        if (peer.sign == 0 || !done(peer.sign)) continue;
        if (take(std::exchange(peer.sign, 0)).code() != Errc::kDeadline) continue;
        if (i == manager() && to_manager_.is_broken()) continue;  // it is made anew
        requests_.for_each([&](uint64_t, Request& request) {
            Call* const call = request.peer == i ? calls_.find(request.call) : nullptr;
            if (call == nullptr || call->has_ended()) return;
            withdraw(*call, request,
                     {Errc::kDeadline,
                      fmt::format("{} gave no sign of life for {} ms; see whether it is stopped or "
                                  "overloaded, or the network to it is cut{}",
                                  peer.name, sign_period_ns() / kMillisecond,
                                  fate_of_push(request.header.kind))});
        });
    }
}

/// Tells the manager of barriers and questions for work whose call has ended here and which are still
/// open there: this worker must not count as waiting, and their requests must end.
void ClientCore::withdraw_from_manager() {
    std::vector<uint64_t> ended;
    requests_.for_each([&](uint64_t id, Request& request) {
        const Kind kind = request.header.kind;
        const bool may_wait = kind == Kind::kBarrier || kind == Kind::kWork;
        if (!may_wait || request.state != Request::State::kSent) return;
        const Call* const call = calls_.find(request.call);
        if (call != nullptr && !call->has_ended()) return;
        request.state = Request::State::kWithdrawn;
        ended.push_back(id);
    });
    for (const uint64_t id : ended)
        drop(control(manager(), Kind::kWithdraw, {}, 0, id));
}

}  // namespace weir

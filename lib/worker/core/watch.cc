// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/core/watch.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "lib/base/check.h"
#include "lib/node/life_line.h"
#include "lib/node/manager_names.h"
#include "lib/wire/work_message.h"

namespace weir {

using wire::Kind;

namespace {

/// A connection is closed for calls that are withdrawn only after so long: closing it delays all that
/// other calls have open there.
constexpr uint64_t kConnectionNsMin = 100 * kMillisecond;

}  // namespace

void Watch::look(uint64_t now_ns) {
    check_join(now_ns);
    if (!deadlines_.begin_to_look(now_ns)) return;
    deadlines_.look_at(tasks_.expire(now_ns));
    check_deadlines(now_ns);
    check_signs_of_life(now_ns);
    end_withdrawn(now_ns);
    ask_for_signs_of_life(now_ns);
    control_.withdraw_from_manager();
}

void Watch::check_deadlines(uint64_t now_ns) {
    // Servers that live give signs of life, though their replies may wait for leases from the manager.
    const ManagerLife* const life = standing_.options().link.manager.get();
    const bool is_manager_silent = life != nullptr && life->is_silent;
    requests_.for_each([&](uint64_t, ClientRequest& request) {
        Call* const call = calls_.find(request.call);
        if (call == nullptr || call->has_ended()) return;
        if (now_ns >= call->deadline_ns) {
            if (!call->is_withdrawn)
                withdraw(*call, request, {Errc::kDeadline, text_of_deadline(request)});
            return;
        }
        deadlines_.look_at(call->deadline_ns);
        if (now_ns < call->next_sign_ns) return;
        sign(request.peer).is_wanted = true;
        if (is_manager_silent && !call->is_withdrawn) {
            withdraw(*call, request,
                     {Errc::kPeerLost,
                      manager_is_silent(life)
                          .append(fate_of_push(request.content().kind))
                          .append(start_again_text(standing_.options().checkpoint_folder))});
        }
    });
}

/// The call ends with that error, unless it has one, as soon as no server reaches its memory.
void Watch::withdraw(Call& call, const ClientRequest& request, Error why) {
    call.is_withdrawn = true;
    call.note_error(std::move(why));
    if (!request.content().is_piece()) call.end();
}

std::string Watch::text_of_deadline(const ClientRequest& request) const {
    const Content& content = request.content();
    if (content.kind == Kind::kBarrier) {
        return "not all workers came to the barrier in the time that the call was given; without "
               "one it waits for as long as they compute";
    }
    const bool asks_for_share = content.first == static_cast<uint64_t>(WorkAsk::kTake);
    if (content.kind == Kind::kWork && asks_for_share)
        return "not all workers asked for work before the deadline";
    std::string text =
        fmt::format("{} did not answer before the deadline", peers_[request.peer].name);
    if (content.is_piece()) text = fmt::format("{}: {}", tables_.text(content.table), text);
    if (content.iteration != 0) {
        text += fmt::format(
            "; it may still wait for another worker's part of iteration {}: without a deadline of "
            "its own the call waits for as long as that one computes",
            content.iteration);
    }
    return text.append(fate_of_push(content.kind));
}

/// Ends the calls that are withdrawn and whose memory no server reaches. For the others it closes the
/// connections of the servers that do.
void Watch::end_withdrawn(uint64_t now_ns) {
    std::vector<Calls::Id> withdrawn;
    calls_.for_each([&](Calls::Id id, const Call& call) {
        if (call.is_withdrawn && !call.has_ended()) withdrawn.push_back(id);
    });
    if (withdrawn.empty()) return;
    std::vector<Calls::Id> reached;
    requests_.for_each([&](uint64_t, ClientRequest& request) {
        const Call* const call = calls_.find(request.call);
        if (call == nullptr || !call->is_withdrawn || call->has_ended()) return;
        if (reaches_caller(request, now_ns)) reached.push_back(request.call);
    });
    for (const Calls::Id id : withdrawn) {
        Call* const call = calls_.find(id);
        if (call != nullptr && !std::ranges::count(reached, id)) call->end();
    }
}

/// Whether a server reaches the caller's memory for a request of a withdrawn call. If so, the connection is
/// closed; what an earlier connection may reach is abandoned.
bool Watch::reaches_caller(ClientRequest& request, uint64_t now_ns) {
    if (request.is_in_doubt() && request.state() == ClientRequest::State::kUnsent) {
        request.content().is_part ? requests_.fail_part(request, Errc::kDeadline)
                                  : requests_.abandon(request);
        return false;
    }
    if (!request.is_caller_reached()) return false;
    close_for_withdrawn(peers_[request.peer], now_ns);
    return true;
}

void Watch::close_for_withdrawn(Peer& peer, uint64_t now_ns) {
    if (peer.closing != Peer::Closing::kNot || !peer.is_open()) return;
    if (now_ns - peer.opened_ns < kConnectionNsMin) {
        deadlines_.look_at(peer.opened_ns + kConnectionNsMin);
        return;
    }
    peers_.close(peer, Errc::kOk);
}

void Watch::check_join(uint64_t now_ns) {
    const uint64_t timeout_ns = standing_.options().join_timeout_ns;
    if (standing_.has_begun() || now_ns - standing_.started_ns() <= timeout_ns) return;
    const Peer* whom = &peers_.manager();
    if (standing_.phase() == Standing::Phase::kConnectingToShards) {
        for (const Peer& peer : peers_.shards()) {
            const bool is_broken = peer.state() == Peer::State::kBroken;
            if (is_broken || peer.state() == Peer::State::kConnecting) whom = &peer;
        }
    }
    if (whom->trouble.empty()) return standing_.fail(peers_.no_answer_from(whom->name));
    standing_.fail(Error(Errc::kPeerLost, fmt::format("{}; it was tried for {} s", whom->trouble,
                                                      timeout_ns / kSecond)));
}

}  // namespace weir

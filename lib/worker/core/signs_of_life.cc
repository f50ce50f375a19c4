// SPDX-License-Identifier: Apache-2.0
/// \file
/// A call with a longer deadline than usual waits for other workers. This must not hide that a
/// server has stopped. So each server, or the manager, that such a call waits for must answer a
/// request that waits for no worker, twice within the usual deadline.

#include <utility>

#include <fmt/core.h>

#include "lib/worker/core/watch.h"

namespace weir {
namespace {

constexpr uint64_t kReplyNs = kSecond;  ///< until a sign of life has mostly come

}  // namespace

Watch::Sign& Watch::sign(uint32_t peer) {
    if (peer == Peers::kManager) return sign_of_manager_;
    if (peer >= signs_.size()) signs_.resize(peers_.shard_count());
    return signs_[peer];
}

void Watch::ask_for_signs_of_life(uint64_t now_ns) {
    const uint64_t period_ns = deadlines_.sign_period_ns();
    calls_.for_each([&](Calls::Id, Call& call) {
        if (call.has_ended() || call.deadline_ns <= now_ns) return;
        if (call.next_sign_ns <= now_ns) call.next_sign_ns = now_ns + period_ns;
        deadlines_.look_at(call.next_sign_ns);
    });
    peers_.for_each([&](uint32_t number, Peer& peer) {
        Sign& its = sign(number);
        if (!std::exchange(its.is_wanted, false)) return;
        // A connection that is broken counts, too: it may break each time that it is made.
        const bool may_answer = peer.is_connected() || peer.state() == Peer::State::kBroken;
        if (its.call != 0 || !may_answer || peer.is_held) return;
        if (number == Peers::kManager && peers_.link().is_broken()) return;  // it is made anew
        its.call = control_.ask({.peer = number, .kind = wire::Kind::kStats}, period_ns);
        deadlines_.look_at(now_ns + kReplyNs);
    });
}

void Watch::check_signs_of_life(uint64_t now_ns) {
    peers_.for_each([&](uint32_t number, Peer& peer) {
        Sign& its = sign(number);
        if (its.call == 0 || !calls_.done(its.call)) return;
        const Result<StatsMessage> came = control_.take_stats(std::exchange(its.call, 0));
        if (came) return tell_of_long_wait(number, *came, now_ns);
        if (came.code() != Errc::kDeadline) return;
        if (number == Peers::kManager && peers_.link().is_broken()) return;  // it is made anew
        end_calls_to_silent(number, peer);
    });
}

/// Fails the open calls to a server that did not give a sign of life in time.
void Watch::end_calls_to_silent(uint32_t number, const Peer& peer) {
    requests_.for_each([&](uint64_t, ClientRequest& request) {
        Call* const call = request.peer == number ? calls_.find(request.call) : nullptr;
        if (call == nullptr || call->has_ended()) return;
        withdraw(
            *call, request,
            {Errc::kDeadline, fmt::format("{} gave no sign of life for {} ms after it was asked "
                                          "for one; see whether it is stopped or "
                                          "overloaded, or the network to it is cut{}",
                                          peer.name, deadlines_.sign_period_ns() / kMillisecond,
                                          fate_of_push(request.content().kind))});
    });
}

}  // namespace weir

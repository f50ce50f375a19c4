// SPDX-License-Identifier: Apache-2.0
/// \file
/// VerbsEndpoint: how connections end. In an orderly end, everything posted completes (a fence
/// shows when), each side tells the other how many messages it has sent, and the queue pair goes
/// once these have arrived. In any other case it goes at once. Either way the queue pair is taken
/// to ERR and drained first. A queue pair is never destroyed while it has work in flight or may
/// hold a buffer of the receive queue.

#include <algorithm>
#include <array>

#include "lib/base/log.h"
#include "transport/verbs/endpoint.h"
#include "transport/verbs/endpoint_limits.h"
#include "transport/verbs/queue_pair.h"

namespace weir::transport::verbs {

void VerbsEndpoint::enter(VerbsConnection& c, State state) {
    c.state = state;
    meeting_->update_place(c);
    uint64_t limit_ms = 0;  // none
    switch (state) {
        case State::kJoining:
        case State::kParting: return;  // they keep the deadline of the state before
        case State::kMeeting: limit_ms = device_.options().handshake_ms_max; break;
        case State::kOpen: break;
        case State::kFinishing: limit_ms = kCloseMs; break;
        case State::kDraining: limit_ms = kDrainMs; break;
        case State::kGivingBack: limit_ms = kLastReceiveMs; break;
        case State::kDrained: drained_.push_back(c.id); break;
    }
    connections_.set_deadline(
        c, limit_ms == 0 ? 0 : device_.clock().now_ns() + limit_ms * kMillisecond);
    if (limit_ms != 0) polls_until_watch_ = std::min(polls_until_watch_, kChangingPollsPerWatch);
}

void VerbsEndpoint::close(ConnectionId connection) {
    VerbsConnection* const c = connections_.find(connection);
    if (c == nullptr) return;
    if (c->is_coming()) {
        drain(*c, Errc::kOk);
    } else if (c->state == State::kOpen) {
        enter(*c, State::kFinishing);
        advance_close(*c);
    }
}

void VerbsEndpoint::advance_close(VerbsConnection& c) {
    if (c.state == State::kFinishing) {
        if (!c.fence && !c.remainder && c.sends->has_reserve(1)) {
            c.fence = c.sends->add_fence();
            flush_later(c);
        }
        if (!c.fence || c.sends->is_open(*c.fence)) return;
        enter(c, State::kParting);  // everything that we posted has arrived
        c.side_channel.handshake().bye(c.messages_out);
        meeting_->send_output(c);
    }
    if (c.state == State::kParting && (c.has_all_of_peer() || hurry_)) drain(c, Errc::kOk);
}

void VerbsEndpoint::take_bye(VerbsConnection& c, uint64_t messages) {
    c.peer_bye_messages = messages;
    c.peer_ended = true;
    if (c.state == State::kOpen) enter(c, State::kFinishing);
    advance_close(c);
}

void VerbsEndpoint::take_peer_close(VerbsConnection& c) {
    if (c.state == State::kOpen) {
        fail(c, Errc::kPeerLost,
             "the process or its host ended, or the network broke, before the connection was "
             "closed");
    } else {
        cut_short(c, "it ended before it had received everything that was sent to it");
    }
}

void VerbsEndpoint::cut_short(VerbsConnection& c, std::string_view why) {
    if (c.state == State::kParting || c.peer_bye_messages) {
        drain(c, Errc::kOk);  // the peer has all of our messages, or ended the connection itself
    } else {
        fail(c, Errc::kPeerLost, why);
    }
}

void VerbsEndpoint::fail(VerbsConnection& c, Errc reason, std::string_view why) {
    if (c.is_ending()) return;
    const std::string line =
        fmt::format("verbs: the connection with {} ends: {}", c.peer_name, why);
    if (c.is_unproven()) {
        meeting_->acceptor().log_unproven(why, line);
    } else {
        log(LogLevel::kWarning, "{}", line);
    }
    // A peer that has sent its Bye may end before our last operations complete.
    drain(c, c.peer_bye_messages ? Errc::kOk : reason);
}

void VerbsEndpoint::drain(VerbsConnection& c, Errc reason) {
    if (c.is_ending()) return;
    c.reason = reason;
    if (reason == Errc::kOk || c.is_coming()) {
        c.side_channel.close();  // sends a pending refusal first, as far as possible
    } else {
        c.side_channel.break_off();  // nobody must take it for the end of this process
    }
    enter(c, State::kDraining);
    if (c.queue_pair >= QueuePairState::kUp) {
        break_off(c.qp.get());
        // Where the device does not report when a queue pair takes no more, we go by the peer's
        // count: if all the messages that it says it sent have arrived, no buffer is half filled.
        const bool empty = c.has_all_of_peer() && !device_.reports_last_receives();
        if (c.queue_pair == QueuePairState::kUp) {
            c.queue_pair = empty || hurry_ ? QueuePairState::kSpent : QueuePairState::kEnded;
        }
        c.beacon = c.sends->add_fence();
        if (c.sends->flush()) return;
    }
    enter(c, State::kDrained);
}

void VerbsEndpoint::advance_drain(VerbsConnection& c) {
    if (c.state == State::kDraining && !c.sends->is_open(c.beacon)) enter(c, State::kGivingBack);
    if (c.state == State::kGivingBack && c.queue_pair == QueuePairState::kSpent) {
        enter(c, State::kDrained);
    }
}

/// The device has not reported in time that the queue pair is empty.
void VerbsEndpoint::give_up_drain(VerbsConnection& c) {
    if (c.state == State::kDraining) {
        log(LogLevel::kWarning,
            "verbs: the device did not flush the queue pair of {} in time; it is destroyed anyway",
            c.peer_name);
    }
    if (c.queue_pair != QueuePairState::kSpent) supplies_->receives().replace_one();
    enter(c, State::kDrained);
}

void VerbsEndpoint::release(VerbsConnection& c) {
    const auto end = [&](const Operation& operation) {
        end_operation(c, operation, c.reason == Errc::kOk ? Errc::kCancelled : Errc::kPeerLost);
    };
    meeting_->forget(c);
    if (c.qp != nullptr) {
        const uint32_t number = c.qp->qp_num;
        c.qp.reset();  // before the memory that it could still read
        notes_.forget(number);
    }
    if (c.sends) {
        c.sends->end_all(end);
        counters_.doorbells += c.sends->take_doorbells();
    }
    if (c.remainder) end(c.remainder->operation);
    if (c.is_known_to_caller) {
        Completion completion;
        completion.event = Event::kClosed;
        completion.status = c.reason;
        completion.peer_ended = c.peer_ended;
        completion.connection = c.id;
        delivery_.add(completion);
    }
    if (c.is_in_flush_list) std::erase(flush_list_, &c);
    supplies_->take_back(c);
    connections_.remove(c);
    meeting_->acceptor().note_room();
}

void VerbsEndpoint::check_deadlines() {
    const bool paused = meeting_->acceptor().pause_ends_ns() != Listener::kUntilResumedNs;
    if (!connections_.has_deadlines() && !paused) return;
    const uint64_t now_ns = device_.clock().now_ns();
    if (paused) meeting_->acceptor().check_pause(now_ns);
    connections_.for_each([&](VerbsConnection& c) {
        if (c.deadline_ns == 0 || c.deadline_ns > now_ns) return;
        switch (c.state) {
            case State::kMeeting:
            case State::kJoining:
                if (c.side == Side::kAccepting) ++counters_.refused;
                fail(c, Errc::kDeadline,
                     "the handshake took longer than it may; see whether the other process is "
                     "overloaded or stopped");
                break;
            case State::kFinishing:
            case State::kParting:
                cut_short(
                    c, "it did not take what was sent to it before the time for closing was over");
                break;
            case State::kDraining:
            case State::kGivingBack: give_up_drain(c); break;
            case State::kOpen:
            case State::kDrained: break;  // they have none
        }
    });
}

/// What was posted still arrives, and every peer gets a Bye, if all of that takes no longer
/// than kHurryMs.
void VerbsEndpoint::close_everything() noexcept {
    hurry_ = true;
    connections_.for_each([&](VerbsConnection& c) {
        close(c.id);
        advance_close(c);
    });
    const SteadyClock clock;
    const uint64_t end_ns = clock.now_ns() + kHurryMs * kMillisecond;
    std::array<Completion, 64> ignored;
    while (connections_.count() > 0 && clock.now_ns() < end_ns)
        static_cast<void>(poll(ignored));
    connections_.for_each([&](VerbsConnection& c) {
        if (c.qp != nullptr) break_off(c.qp.get());
        c.qp.reset();
    });
    connections_.clear();
}

}  // namespace weir::transport::verbs

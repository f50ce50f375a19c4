// SPDX-License-Identifier: Apache-2.0
/// \file
/// VerbsEndpoint: how connections end. In order: everything posted completes (a fence says so),
/// each side tells the other how many messages it has sent, and once those are here the queue pair
/// goes. Otherwise at once. Either way the queue pair is taken to ERR and drained first: one with
/// work in flight is never destroyed.

#include <algorithm>
#include <array>

#include <sys/epoll.h>

#include "lib/base/log.h"
#include "transport/verbs/endpoint.h"
#include "transport/verbs/endpoint_limits.h"
#include "transport/verbs/queue_pair.h"

namespace weir::transport::verbs {

namespace {

using State = Connection::State;

}  // namespace

void VerbsEndpoint::close(ConnectionId connection) {
    Connection* const c = find(connection);
    if (c == nullptr) return;
    if (c->state == State::kHandshake) {
        drain(*c, Errc::kOk);
    } else if (c->state == State::kOpen) {
        c->state = State::kClosing;
        set_deadline(*c, kCloseMs);
        advance_close(*c);
    }
}

void VerbsEndpoint::advance_close(Connection& c) {
    if (c.state != State::kClosing) return;
    if (!c.fence_posted && !c.remainder && c.sends->has_reserve(1)) {
        c.fence = c.sends->add_fence();
        c.fence_posted = true;
        mark_dirty(c);
    }
    if (c.fence_posted && !c.sends->is_open(c.fence)) c.fence_done = true;
    if (!c.fence_done) return;
    if (!c.bye_sent) {
        c.handshake.bye(c.messages_out);
        c.bye_sent = true;
        send_output(c);
    }
    const bool peer_is_done = c.bye_received && c.messages_in >= c.handshake.peer_messages();
    if (peer_is_done || hurry_) drain(c, Errc::kOk);
}

void VerbsEndpoint::fail(Connection& c, Errc reason, std::string_view why) {
    if (c.state == State::kDraining) return;
    log(LogLevel::kWarning, "verbs: connection with {} ends: {}", c.peer_name, why);
    // Who has said goodbye may be gone before our last operations are through.
    drain(c, c.bye_received ? Errc::kOk : reason);
}

void VerbsEndpoint::drain(Connection& c, Errc reason) {
    if (c.state == State::kDraining) return;
    if (c.state == State::kHandshake && c.side == Side::kAccepting) {
        --half_open_;
        listen_again();
    }
    c.state = State::kDraining;
    c.reason = reason;
    if (c.socket.fd() >= 0) {
        static_cast<void>(c.socket.send(c.handshake.output()));  // a refusal, as far as it goes
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, c.socket.fd(), nullptr);
        c.socket.close();
    }
    clear_deadline(c);
    // Who got all that its peer says it had sent has nothing half filled.
    const bool all_here = c.bye_received && c.messages_in >= c.handshake.peer_messages();
    if (all_here || hurry_) c.receives_over = true;
    if (c.qp_up) {
        break_off(c.qp.get());
        c.beacon = c.sends->add_fence();
        if (c.sends->flush()) {
            set_deadline(c, kDrainMs);
            return;
        }
    }
    note_drained(c);
}

/// A queue pair in ERR may go once everything that was posted to it is flushed, and once it has
/// given back the receive buffer that a message was coming into, if there was one.
void VerbsEndpoint::advance_drain(Connection& c) {
    if (c.state != State::kDraining || c.drained || c.sends->is_open(c.beacon)) return;
    if (c.receives_over) {
        note_drained(c);
    } else {
        set_deadline(c, kLastReceiveMs);
    }
}

/// Puts it up for release. Here alone, and once: the deadline of the drain ends with it.
void VerbsEndpoint::note_drained(Connection& c) {
    if (c.drained) return;
    c.drained = true;
    clear_deadline(c);
    draining_.push_back(c.id);
}

void VerbsEndpoint::release(ConnectionId id) {
    Connection& c = *find(id);
    const auto end = [&](const Operation& operation) {
        end_operation(c, operation, c.reason == Errc::kOk ? Errc::kCancelled : Errc::kPeerLost);
    };
    if (c.qp != nullptr) queue_pairs_.erase(c.qp->qp_num);
    if (last_found_ == &c) last_found_ = nullptr;
    if (cm_ != nullptr) cm_->forget(id);
    if (c.qp != nullptr) {
        const uint32_t number = c.qp->qp_num;
        c.qp.reset();  // before the memory that it could still read
        mailbox_.forget(number);
    }
    if (c.sends) {
        c.sends->end_all(end);
        counters_.doorbells += c.sends->take_doorbells();
        if (spare_rings_.size() < kSpareRingsMost) spare_rings_.push_back(c.sends->take_ring());
    }
    if (c.remainder) end(c.remainder->operation);
    if (c.announced) {
        Completion completion;
        completion.event = Event::kClosed;
        completion.status = c.reason;
        completion.connection = id;
        emit(completion);
    }
    if (c.dirty) std::erase(dirty_, &c);
    clear_deadline(c);
    capacity_->release(c.share);
    granted_ -= c.share.window;
    --connection_count_;
    const auto slot = static_cast<uint16_t>(slot_of(c));
    slots_[slot].reset();
    free_slots_.push_back(slot);
    listen_again();
}

void VerbsEndpoint::set_deadline(Connection& c, uint64_t after_ms) {
    if (c.deadline_ns == 0) ++deadlines_;
    c.deadline_ns = device_.clock().now_ns() + after_ms * kMillisecond;
    polls_until_watch_ = std::min(polls_until_watch_, kChangingPollsPerWatch);
}

void VerbsEndpoint::clear_deadline(Connection& c) {
    if (c.deadline_ns != 0) --deadlines_;
    c.deadline_ns = 0;
}

void VerbsEndpoint::check_deadlines() {
    if (deadlines_ == 0) return;
    const uint64_t now_ns = device_.clock().now_ns();
    if (accept_again_ns_ != 0 && accept_again_ns_ <= now_ns) listen_again();
    for (const auto& slot : slots_) {
        if (slot == nullptr || slot->deadline_ns == 0 || slot->deadline_ns > now_ns) continue;
        Connection& c = *slot;
        switch (c.state) {
            case State::kHandshake:
                if (c.side == Side::kAccepting) ++counters_.refused;
                fail(c, Errc::kDeadline, "the handshake takes too long");
                break;
            case State::kClosing:
                if (c.fence_done || c.bye_received) {
                    drain(c, Errc::kOk);  // it has all of ours; that must do
                } else {
                    fail(c, Errc::kPeerLost, "it does not take what we sent");
                }
                break;
            case State::kDraining:
                if (c.sends->is_open(c.beacon)) {
                    log(LogLevel::kWarning, "verbs: the device does not flush the queue pair of {}",
                        c.peer_name);
                }
                receives_->replace_one();
                note_drained(c);
                break;
            case State::kOpen: break;
        }
    }
}

/// What was posted still arrives, and every peer hears a goodbye, if that takes no longer than
/// kHurryMs in all.
void VerbsEndpoint::close_everything() noexcept {
    hurry_ = true;
    for (const auto& slot : slots_) {
        if (slot == nullptr) continue;
        close(slot->id);
        advance_close(*slot);
    }
    const SteadyClock clock;
    const uint64_t end_ns = clock.now_ns() + kHurryMs * kMillisecond;
    std::array<Completion, 64> ignored;
    while (connection_count_ > 0 && clock.now_ns() < end_ns)
        static_cast<void>(poll(ignored));
    for (const auto& slot : slots_) {
        if (slot == nullptr || slot->qp == nullptr) continue;
        break_off(slot->qp.get());
        slot->qp.reset();
    }
    slots_.clear();
}

}  // namespace weir::transport::verbs

// SPDX-License-Identifier: Apache-2.0
/// \file
/// VerbsEndpoint: polling and sleeping.

#include <algorithm>
#include <array>
#include <limits>

#include "transport/verbs/endpoint.h"
#include "transport/verbs/endpoint_limits.h"

namespace weir::transport::verbs {

namespace {

constexpr size_t kCompletionsAtOnce = 16;
constexpr size_t kReadyAtOnce = 32;

}  // namespace

size_t VerbsEndpoint::poll(std::span<Completion> completions) {
    delivery_.begin(completions);
    post_returned_buffers();
    if (!flush_list_.empty()) flush();

    // A connection drained before this poll, which has nothing left in the queue, can be
    // released.
    const size_t drained = drained_.size();
    if (delivery_.has_room() && poll_queue(delivery_.room()) && drained > 0) {
        release_drained(drained);
    }
    const uint32_t cost = delivery_.count() == 0 ? kBusyPollsPerWatch / kIdlePollsPerWatch : 1;
    if (polls_until_watch_ <= cost) {
        watch();
    } else {
        polls_until_watch_ -= cost;
    }
    if (!flush_list_.empty()) flush();
    return delivery_.end();
}

/// Takes at most `most` completions. True: the queue is empty.
bool VerbsEndpoint::poll_queue(size_t most) {
    std::array<ibv_wc, kCompletionsAtOnce> taken;
    while (most > 0) {
        const auto asked = static_cast<int>(std::min(most, taken.size()));
        const int count = ibv_poll_cq(supplies_->completions(), asked, taken.data());
        if (count < 0) {
            connections_.for_each([&](VerbsConnection& c) {
                fail(c, Errc::kPeerLost,
                     "the device failed to poll the completion queue; see the kernel's log");
            });
            return true;
        }
        for (int i = 0; i < count; ++i) {
            const ibv_wc& wc = taken[static_cast<size_t>(i)];
            if ((wc.wr_id & ReceiveQueue::kIdBit) != 0) {
                take_received(wc);
            } else {
                take_sent(wc);
            }
        }
        if (count < asked) return true;
        most -= static_cast<size_t>(count);
    }
    return false;
}

void VerbsEndpoint::post_returned_buffers() {
    std::vector<ReceivedBuffer>& returned = delivery_.returned();
    if (returned.empty()) return;
    buffers_to_post_.clear();
    for (const ReceivedBuffer& buffer : returned)
        buffers_to_post_.push_back(buffer.number);
    const bool posted = supplies_->receives().post(buffers_to_post_);
    for (const ReceivedBuffer& buffer : returned) {
        VerbsConnection* const c = connections_.find(buffer.connection);
        if (c == nullptr) continue;
        if (!posted) {
            fail(*c, Errc::kPeerLost, "the device refuses receive buffers; see the kernel's log");
            continue;
        }
        c->credits.free_one();
        update_credits(*c);
    }
    returned.clear();
}

void VerbsEndpoint::release_drained(size_t count) {
    for (size_t i = 0; i < count; ++i) {
        VerbsConnection* const c = connections_.find(drained_[i]);
        WEIR_CHECK(c != nullptr);  // enter() puts it into the list once
        release(*c);
    }
    drained_.erase(drained_.begin(), drained_.begin() + static_cast<ptrdiff_t>(count));
}

/// Handles events of sockets and of the device, and deadlines.
void VerbsEndpoint::watch() {
    polls_until_watch_ = connections_.has_deadlines() ? kChangingPollsPerWatch : kBusyPollsPerWatch;
    std::array<uint64_t, kReadyAtOnce> ready;
    const size_t count = watcher_->ready(ready);
    for (size_t i = 0; i < count; ++i) {
        switch (ready[i]) {
            case kWatchListener: meeting_->acceptor().accept_all(); break;
            case kWatchCompletions: {
                ibv_cq* cq = nullptr;
                void* context = nullptr;
                if (ibv_get_cq_event(supplies_->channel(), &cq, &context) == 0) {
                    ibv_ack_cq_events(cq, 1);
                }
                break;
            }
            case kWatchDevice: device_.deliver_async_events(); break;
            case kWatchNotes: take_notes(); break;
            case kWatchCm: meeting_->take_cm_events(); break;
            case kWatchAlarm: break;
            default:
                if (VerbsConnection* const c = connections_.find(ready[i])) meeting_->serve(*c);
        }
    }
    check_deadlines();
    meeting_->acceptor().sum_up_log();
}

void VerbsEndpoint::take_notes() {
    for (const AsyncNote& note : notes_.take()) {
        if (note.about == AsyncNote::About::kEverything) {
            connections_.for_each([&](VerbsConnection& c) { fail(c, Errc::kPeerLost, note.text); });
            continue;
        }
        VerbsConnection* const c = connections_.find_queue_pair(note.queue_pair);
        if (c == nullptr) continue;
        if (note.about == AsyncNote::About::kLastReceive) {
            c->queue_pair = QueuePairState::kSpent;
            advance_drain(*c);
        } else {
            fail(*c, Errc::kPeerLost, note.text);
        }
    }
}

int VerbsEndpoint::arm() {
    post_returned_buffers();
    flush();
    polls_until_watch_ = 0;  // the next poll takes the event that wakes the sleeper
    static_cast<void>(ibv_req_notify_cq(supplies_->completions(), 0));
    // A completion that came before the request makes no event: poll once more. What it finds
    // waits for the next poll().
    static_cast<void>(poll_queue(std::numeric_limits<int>::max()));
    post_returned_buffers();
    flush();
    if (delivery_.is_waiting() || !drained_.empty()) notes_.wake();
    const uint64_t wanted_ns =
        std::min(connections_.next_deadline_ns(), meeting_->acceptor().pause_ends_ns());
    if (wanted_ns != std::numeric_limits<uint64_t>::max()) {
        const uint64_t now_ns = device_.clock().now_ns();
        watcher_->set_alarm(wanted_ns > now_ns ? wanted_ns - now_ns : 0);
    }
    return watcher_->fd();
}

}  // namespace weir::transport::verbs

// SPDX-License-Identifier: Apache-2.0
/// \file
/// VerbsEndpoint: polling and sleeping.

#include <algorithm>
#include <array>
#include <limits>

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "transport/verbs/endpoint.h"
#include "transport/verbs/endpoint_limits.h"

namespace weir::transport::verbs {

namespace {

constexpr size_t kCompletionsAtOnce = 16;

}  // namespace

void VerbsEndpoint::emit(const Completion& completion, const Buffer& buffer) {
    if (out_count_ == out_.size() || !waiting_.empty()) {
        waiting_.push_back({completion, buffer});
        return;
    }
    out_[out_count_++] = completion;
    if (buffer.connection != 0) lent_.push_back(buffer);
}

size_t VerbsEndpoint::poll(std::span<Completion> completions) {
    out_ = completions;
    out_count_ = 0;
    returning_.insert(returning_.end(), lent_.begin(), lent_.end());
    lent_.clear();
    give_back_buffers();
    while (!waiting_.empty() && out_count_ < out_.size()) {
        const Waiting& next = waiting_.front();
        out_[out_count_++] = next.completion;
        if (next.buffer.connection != 0) lent_.push_back(next.buffer);
        waiting_.pop_front();
    }
    if (!dirty_.empty()) flush();

    // Who was drained before this and left nothing in the queue is gone for good afterwards.
    const size_t drained = draining_.size();
    if (out_count_ < out_.size() && poll_queue(out_.size() - out_count_) && drained > 0) {
        for (size_t i = 0; i < drained; ++i)
            release(draining_[i]);
        draining_.erase(draining_.begin(), draining_.begin() + static_cast<ptrdiff_t>(drained));
    }

    const uint32_t cost = out_count_ == 0 ? kBusyPollsPerWatch / kIdlePollsPerWatch : 1;
    if (polls_until_watch_ <= cost) {
        watch();
    } else {
        polls_until_watch_ -= cost;
    }
    if (!dirty_.empty()) flush();
    out_ = {};
    return std::exchange(out_count_, 0);
}

bool VerbsEndpoint::poll_queue(size_t most) {
    std::array<ibv_wc, kCompletionsAtOnce> taken;
    while (most > 0) {
        const auto asked = static_cast<int>(std::min(most, taken.size()));
        const int count = ibv_poll_cq(cq_.get(), asked, taken.data());
        if (count < 0) {
            for (const auto& slot : slots_) {
                if (slot != nullptr) fail(*slot, Errc::kPeerLost, "the completion queue is broken");
            }
            return true;
        }
        for (int i = 0; i < count; ++i)
            take_completion(taken[static_cast<size_t>(i)]);
        if (count < asked) return true;
        most -= static_cast<size_t>(count);
    }
    return false;
}

void VerbsEndpoint::give_back_buffers() {
    if (returning_.empty()) return;
    to_post_.clear();
    for (const Buffer& buffer : returning_)
        to_post_.push_back(buffer.number);
    const bool posted = receives_->post(to_post_);
    for (const Buffer& buffer : returning_) {
        Connection* const c = find(buffer.connection);
        if (c == nullptr) continue;
        if (!posted) {
            fail(*c, Errc::kPeerLost, "the device does not take receive buffers");
            continue;
        }
        c->credits.free_one();
        update_credits(*c);
    }
    returning_.clear();
}

void VerbsEndpoint::watch() {
    polls_until_watch_ = deadlines_ > 0 ? kChangingPollsPerWatch : kBusyPollsPerWatch;
    std::array<epoll_event, 32> events;
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < count; ++i) {
        const uint64_t what = events[static_cast<size_t>(i)].data.u64;
        switch (what) {
            case kWatchListener: accept_all(); break;
            case kWatchCompletions: {
                ibv_cq* cq = nullptr;
                void* context = nullptr;
                if (ibv_get_cq_event(channel_.get(), &cq, &context) == 0) {
                    ibv_ack_cq_events(cq, 1);
                }
                break;
            }
            case kWatchDevice: device_.deliver_async_events(); break;
            case kWatchMailbox: take_notes(); break;
            case kWatchCm: take_cm_events(); break;
            case kWatchTimer: {
                uint64_t expirations = 0;
                [[maybe_unused]] const ssize_t got =
                    ::read(timer_.get(), &expirations, sizeof(expirations));
                break;
            }
            default:
                if (Connection* const c = find(what)) serve_socket(*c);
        }
    }
    check_deadlines();
}

void VerbsEndpoint::take_notes() {
    for (const AsyncNote& note : mailbox_.take()) {
        if (note.about != AsyncNote::About::kEverything) {
            Connection* const c = find_queue_pair(note.queue_pair);
            if (c == nullptr) continue;
            if (note.about == AsyncNote::About::kLastReceive) {
                c->receives_over = true;
                advance_drain(*c);
            } else {
                fail(*c, Errc::kPeerLost, note.text);
            }
            continue;
        }
        for (const auto& slot : slots_) {
            if (slot != nullptr) fail(*slot, Errc::kPeerLost, note.text);
        }
    }
}

int VerbsEndpoint::arm() {
    give_back_buffers();
    flush();
    polls_until_watch_ = 0;  // the next poll takes the event that wakes the sleeper
    static_cast<void>(ibv_req_notify_cq(cq_.get(), 0));
    // What came before the request makes no event: look once more. It waits for the next poll.
    static_cast<void>(poll_queue(std::numeric_limits<int>::max()));
    give_back_buffers();
    flush();
    if (!waiting_.empty() || !lent_.empty() || !draining_.empty()) mailbox_.wake();
    if (deadlines_ > 0) set_timer();
    return epoll_.get();
}

void VerbsEndpoint::set_timer() {
    uint64_t nearest_ns =
        accept_again_ns_ != 0 ? accept_again_ns_ : std::numeric_limits<uint64_t>::max();
    for (const auto& slot : slots_) {
        if (slot != nullptr && slot->deadline_ns != 0) {
            nearest_ns = std::min(nearest_ns, slot->deadline_ns);
        }
    }
    const uint64_t now_ns = device_.clock().now_ns();
    const uint64_t wait_ns = nearest_ns > now_ns ? nearest_ns - now_ns : 1;
    itimerspec when{};
    when.it_value.tv_sec = static_cast<time_t>(wait_ns / kSecond);
    when.it_value.tv_nsec = static_cast<long>(wait_ns % kSecond);
    ::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

}  // namespace weir::transport::verbs

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Task and Tasks: pushes and pulls that are under way.

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "lib/worker/client.h"
#include "lib/worker/client_state.h"

namespace weir {

using access::Turn;
using access::TurnInTheEnd;

Task& Task::operator=(Task&& other) noexcept {
    if (this != &other) {
        if (state_ != nullptr) finish();
        state_ = std::move(other.state_);
        call_ = other.call_;
        result_ = std::exchange(other.result_, {});
        shown_ = std::exchange(other.shown_, {});
        id_ = std::exchange(other.id_, kNoTask);
    }
    return *this;
}

TaskId Task::id() {
    if (state_ == nullptr) return id_;
    const Turn turn(*state_);
    if (!turn) {
        (void)turn.error();
        return kUnknownTask;
    }
    if (id_ == kNoTask) id_ = state_->core().name_task(call_);
    return id_;
}

Status Task::then(std::function<void(const Status&)> handler) {
    if (state_ != nullptr) {
        const Turn turn(*state_);
        if (!turn) return turn.error();
        return state_->core().on_finished(call_, std::move(handler));
    }
    return Error(Errc::kInvalidArgument,
                 "a handler for a task that is empty or whose outcome was taken: attach it before "
                 "wait()");
}

bool Task::has_ended() const {
    if (state_ == nullptr) return true;
    const Turn turn(*state_);
    return turn && state_->core().done(call_);
}

bool Task::test() {
    if (state_ == nullptr) return true;
    const Turn turn(*state_);
    if (!turn) {
        (void)turn.error();
        return false;
    }
    if (state_->core().done(call_)) return true;
    (void)state_->core().poll_seldom();
    return state_->core().done(call_);
}

Status Task::wait() {
    if (state_ == nullptr) return result_;
    std::shared_ptr<ClientState> until_the_turn_is_over;
    const Turn turn(*state_);
    if (!turn) return turn.error();
    if (!state_->core().done(call_)) WEIR_TRY(state_->may_wait());
    state_->wait_until([&] { return state_->core().done(call_); });
    return take(until_the_turn_is_over);
}

Status Task::wait_for(std::chrono::nanoseconds at_most) {
    if (state_ == nullptr) return result_;
    std::shared_ptr<ClientState> until_the_turn_is_over;
    const Turn turn(*state_);
    if (!turn) return turn.error();
    if (!state_->core().done(call_)) WEIR_TRY(state_->may_wait());
    at_most = std::min(at_most, kLongDeadline);
    const auto end = std::chrono::steady_clock::now() + at_most;
    const auto over = [&] {
        return state_->core().done(call_) || std::chrono::steady_clock::now() >= end;
    };
    state_->wait_until(over, static_cast<uint64_t>(std::max<int64_t>(1, at_most.count())));
    if (!state_->core().done(call_))
        return Error(Errc::kDeadline,
                     fmt::format("the call has not ended within {} ms; wait for it again",
                                 at_most.count() / 1'000'000));
    return take(until_the_turn_is_over);
}

/// It has ended.
Status Task::take(std::shared_ptr<ClientState>& state) {
    shown_ = state_->core().iteration_shown(call_);
    result_ = state_->core().take(call_);
    state = std::move(state_);
    return result_;
}

std::optional<uint64_t> Task::iteration_shown() const noexcept {
    if (state_ == nullptr) return shown_;
    const Turn turn(*state_);
    return turn ? state_->core().iteration_shown(call_) : std::nullopt;
}

/// Polls the client until the call has ended; its other calls progress too.
void Task::finish() noexcept {
    const std::shared_ptr<ClientState> state = std::move(state_);  // until its turn is over
    const TurnInTheEnd turn(*state);
    ClientCore& core = state->core();
    if (core.is_in_handler()) return state->free_memory(call_);
    state->wait_until([&] { return core.done(call_); });
    core.lose_outcome(call_);
    (void)core.take(call_);
}

Tasks::Tasks() = default;

Tasks::Tasks(Tasks&& other) noexcept
    : under_way_(std::exchange(other.under_way_, {})),
      first_error_(std::exchange(other.first_error_, {})),
      failed_in_(std::move(other.failed_in_)) {}

Tasks::~Tasks() {
    lose_error();
}

void Tasks::add(Task task) {
    under_way_.push_back(std::move(task));
}

size_t Tasks::count() const noexcept {
    return under_way_.size();
}

Tasks& Tasks::operator=(Tasks&& other) noexcept {
    if (this != &other) {
        lose_error();
        under_way_ = std::exchange(other.under_way_, {});
        first_error_ = std::exchange(other.first_error_, {});
        failed_in_ = std::move(other.failed_in_);
    }
    return *this;
}

/// Takes the outcome of a task once it has ended. The first error is told by wait(), any other one is lost.
void Tasks::keep_error(Task& task) {
    const std::shared_ptr<ClientState> state = task.state_;
    std::optional<TurnInTheEnd> turn;
    if (state != nullptr) {
        turn.emplace(*state);
        state->wait_until([&] { return task.has_ended(); });
        if (!first_error_) state->core().lose_outcome(task.call_);
    }
    Status outcome = task.wait();
    if (outcome || !first_error_) return;
    first_error_ = std::move(outcome);
    failed_in_ = state;
}

void Tasks::lose_error() noexcept {
    if (!first_error_ && failed_in_ != nullptr) {
        const TurnInTheEnd turn(*failed_in_);
        failed_in_->core().lose_error(first_error_.error());
    }
    failed_in_.reset();
}

size_t Tasks::reap() {
    // By index, and erased only afterwards: test() may run handlers, which may add tasks.
    for (size_t i = 0; i < under_way_.size(); ++i)
        (void)under_way_[i].test();
    const size_t before = under_way_.size();
    std::erase_if(under_way_, [&](Task& task) {
        if (!task.has_ended()) return false;
        keep_error(task);
        return true;
    });
    return before - under_way_.size();
}

Status Tasks::finish_one() {
    Task& oldest = under_way_.front();
    if (const std::shared_ptr<ClientState> state = oldest.state_; state != nullptr) {
        const Turn turn(*state);
        if (!turn) return turn.error();
        if (!oldest.has_ended()) WEIR_TRY(state->may_wait());
        keep_error(oldest);
    } else {
        keep_error(oldest);
    }
    under_way_.pop_front();
    return {};
}

Status Tasks::wait_for_room(size_t count) {
    while (first_error_ && under_way_.size() >= std::max<size_t>(count, 1))
        WEIR_TRY(finish_one());
    if (!first_error_) failed_in_.reset();  // it is told here
    return first_error_;
}

Status Tasks::wait() {
    while (!under_way_.empty())
        WEIR_TRY(finish_one());
    failed_in_.reset();  // its error is not lost
    return std::exchange(first_error_, {});
}

}  // namespace weir

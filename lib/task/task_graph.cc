// SPDX-License-Identifier: Apache-2.0
#include "lib/task/task_graph.h"

#include <utility>

#include <fmt/core.h>

#include "lib/base/check.h"

namespace weir {

std::string to_string(TaskId id) {
    return fmt::format("task {} of client {}", id.number, id.client);
}

TaskGraph::Task* TaskGraph::find(uint64_t number) noexcept {
    const auto found = tasks_.find(number);
    return found == tasks_.end() ? nullptr : &found->second;
}

const TaskGraph::Task* TaskGraph::find(TaskId id) const noexcept {
    if (!is_mine(id)) return nullptr;
    const auto found = tasks_.find(id.number);
    return found == tasks_.end() ? nullptr : &found->second;
}

Status TaskGraph::check(std::span<const TaskId> after) const {
    for (const TaskId id : after) {
        if (was_given_out(id)) continue;
        std::string why = "it was never given out";
        if (id.client != client_) {
            why = fmt::format("a task of client {} cannot wait for another client's", client_);
        } else if (id.instance != instance_) {
            why = "it is of another client with this number";
        }
        return Error(Errc::kInvalidArgument, fmt::format("{}: {}", to_string(id), why));
    }
    if (tasks_.size() >= count_max_) {
        return Error(Errc::kBusy,
                     fmt::format("client {}: {} tasks are open or were not taken, which is the "
                                 "limit; take some that have finished",
                                 client_, tasks_.size()));
    }
    return {};
}

Result<TaskId> TaskGraph::add(std::span<const TaskId> after) {
    WEIR_TRY(check(after));
    return insert(0, after);
}

Result<TaskId> TaskGraph::add_subtask(TaskId parent, std::span<const TaskId> after) {
    const Task* const task = find(parent);
    if (task == nullptr || task->state != State::kRunning) {
        return Error(
            Errc::kInvalidArgument,
            fmt::format("{}: it is not running, so it cannot get a subtask", to_string(parent)));
    }
    WEIR_TRY(check(after));
    if (const auto found = waiting_for(parent.number, after)) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("{}: it ends after {}, so a subtask of that cannot wait for it",
                                 to_string(*found), to_string(parent)));
    }
    return insert(parent.number, after);
}

/// One of `after` that is `parent` or cannot end before it, if there is any. Looks at all tasks
/// that cannot: those that wait for it, those that it is a subtask of, and so on.
std::optional<TaskId> TaskGraph::waiting_for(uint64_t parent, std::span<const TaskId> after) {
    if (after.empty()) return std::nullopt;
    ++visit_;
    std::vector<uint64_t> open{parent};
    while (!open.empty()) {
        Task* const task = find(open.back());
        open.pop_back();
        // What has finished waits no more, though it may still be in a list.
        if (task == nullptr || task->state == State::kFinished) continue;
        if (std::exchange(task->visit, visit_) == visit_) continue;
        open.insert(open.end(), task->awaiting.begin(), task->awaiting.end());
        if (task->parent != 0) open.push_back(task->parent);
    }
    for (const TaskId id : after) {
        const Task* const task = find(id);
        if (task != nullptr && task->visit == visit_ && task->state != State::kFinished) return id;
    }
    return std::nullopt;
}

Result<TaskId> TaskGraph::insert(uint64_t parent, std::span<const TaskId> after) {
    const TaskId id = id_of(next_number_++);
    Task& task = tasks_[id.number];
    task.parent = parent;
    if (parent != 0) ++find(parent)->open_subtasks;
    for (const TaskId other : after) {
        const Task* const before = find(other);
        if (before != nullptr && before->state == State::kFinished)
            inherit(task, *before, other.number);
    }
    for (const TaskId other : after) {
        Task* const before = find(other.number);
        const bool waits = task.outcome && before != nullptr && before->state != State::kFinished;
        if (!waits) continue;
        await(*before, id.number);
        ++task.waits_for;
    }
    if (!task.outcome) {
        settled_.push_back(id.number);
        ended(id.number, task);
        settle();
    } else if (task.waits_for == 0) {
        task.state = State::kReady;
        ready_.push_back(id.number);
    }
    return id;
}

TaskId TaskGraph::add_running() {
    const TaskId id = id_of(next_number_++);
    tasks_[id.number].state = State::kRunning;
    return id;
}

/// Task `number` waits for `before`. Tasks that have ended otherwise meanwhile are taken out of the
/// list whenever it has grown to twice its size, so that it stays bounded.
void TaskGraph::await(Task& before, uint64_t number) {
    before.awaiting.push_back(number);
    if (before.awaiting.size() < before.awaiting_max) return;
    std::erase_if(before.awaiting, [this](uint64_t other) {
        const Task* const task = find(other);
        return task == nullptr || task->state != State::kWaiting;
    });
    before.awaiting_max = 2 * before.awaiting.size() + 16;
}

std::optional<TaskId> TaskGraph::start_next() {
    while (!ready_.empty()) {
        const uint64_t number = ready_.front();
        ready_.pop_front();
        Task* const task = find(number);
        if (task == nullptr || task->state != State::kReady) {
            --cancelled_ready_;
            continue;
        }
        task->state = State::kRunning;
        return id_of(number);
    }
    return std::nullopt;
}

void TaskGraph::finish(TaskId id, const Status& outcome) {
    WEIR_CHECK(is_mine(id));
    Task* const task = find(id.number);
    WEIR_CHECK(task != nullptr && task->state == State::kRunning);
    note(*task, outcome);
    task->state = State::kSubtasks;
    if (task->open_subtasks > 0) return;
    ended(id.number, *task);
    settle();
}

bool TaskGraph::cancel(TaskId id, Error why) {
    Task* const task = is_mine(id) ? find(id.number) : nullptr;
    if (task == nullptr || (task->state != State::kWaiting && task->state != State::kReady))
        return false;
    const bool was_ready = task->state == State::kReady;
    note(*task, std::move(why));
    ended(id.number, *task);
    if (was_ready) ++cancelled_ready_;
    if (cancelled_ready_ > ready_.size() / 2) {
        std::erase_if(ready_, [this](uint64_t other) {
            const Task* const ready = find(other);
            return ready == nullptr || ready->state != State::kReady;
        });
        cancelled_ready_ = 0;
    }
    settle();
    return true;
}

std::optional<TaskId> TaskGraph::next_settled() {
    if (settled_.empty()) return std::nullopt;
    const uint64_t number = settled_.front();
    settled_.pop_front();
    return id_of(number);
}

bool TaskGraph::is_finished(TaskId id) const noexcept {
    const Task* const task = find(id);
    return task == nullptr ? was_given_out(id) : task->state == State::kFinished;
}

bool TaskGraph::has_failed(TaskId id) const noexcept {
    const Task* const task = find(id);
    return task != nullptr && task->state == State::kFinished && !task->outcome;
}

Status TaskGraph::outcome(TaskId id) const {
    const Task* const task = find(id);
    return task == nullptr ? Status() : task->outcome;
}

std::optional<Status> TaskGraph::take(TaskId id) {
    if (!is_finished(id)) return std::nullopt;
    Task* const task = find(id.number);
    if (task == nullptr) return Status();
    Status outcome = std::move(task->outcome);
    tasks_.erase(id.number);
    return outcome;
}

void TaskGraph::forget(TaskId id) {
    Task* const task = is_mine(id) ? find(id.number) : nullptr;
    if (task == nullptr) return;
    task->is_unwanted = true;
    if (task->state == State::kFinished) tasks_.erase(id.number);
}

size_t TaskGraph::bytes() const noexcept {
    constexpr size_t kNodeBytes = 2 * sizeof(void*) + sizeof(decltype(tasks_)::value_type);
    size_t sum = (ready_.size() + ended_.size() + settled_.size()) * sizeof(uint64_t) +
                 tasks_.bucket_count() * sizeof(void*);
    for (const auto& [number, task] : tasks_)
        sum += kNodeBytes + task.awaiting.capacity() * sizeof(uint64_t);
    return sum;
}

void TaskGraph::note(Task& task, const Status& outcome) {
    if (task.outcome && !outcome) task.outcome = outcome;
}

/// `from`, whose number is given, ended `task`, or is a subtask of it.
void TaskGraph::inherit(Task& task, const Task& from, uint64_t number) {
    if (!task.outcome || from.outcome) return;
    const Error& cause = from.outcome.error();
    task.is_inherited = true;
    task.outcome = from.is_inherited
                       ? cause
                       : Error(cause.code(),
                               fmt::format("{} failed: {}", to_string(id_of(number)), cause.text()),
                               cause.os_error());
}

void TaskGraph::ended(uint64_t number, Task& task) {
    task.state = State::kFinished;
    ended_.push_back(number);
}

/// Tells those that wait, and those that wait for these, one after the other.
void TaskGraph::settle() {
    while (!ended_.empty()) {
        const uint64_t number = ended_.front();
        ended_.pop_front();
        settle_one(number);
    }
}

void TaskGraph::settle_one(uint64_t number) {
    Task& task = *find(number);
    for (const uint64_t other : std::exchange(task.awaiting, {})) {
        Task* const after = find(other);
        // One that waited for several tasks may have failed, and been forgotten, through another.
        if (after == nullptr || after->state != State::kWaiting) continue;
        --after->waits_for;
        inherit(*after, task, number);
        if (!after->outcome) {
            settled_.push_back(other);
            ended(other, *after);
        } else if (after->waits_for == 0) {
            after->state = State::kReady;
            ready_.push_back(other);
        }
    }
    if (task.parent != 0) {
        Task& parent = *find(task.parent);  // it cannot have been forgotten: it is not finished
        inherit(parent, task, number);
        if (--parent.open_subtasks == 0 && parent.state == State::kSubtasks) {
            settled_.push_back(task.parent);
            ended(task.parent, parent);
        }
    }
    if (task.is_unwanted) tasks_.erase(number);
}

}  // namespace weir

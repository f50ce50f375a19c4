// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// TaskGraph: which tasks of a client wait for which, and which may start.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "lib/base/result.h"
#include "lib/task/task_id.h"

namespace weir {

/// A task starts after the tasks that it waits for have finished, and has finished when its own
/// work and all its subtasks have. It has failed if one of these failed; its error is the first of
/// theirs. A task that waits for one that fails ends with that error at once and is not started.
/// An error that comes from another task is preceded by the name of the one that it began with.
///
/// A finished task is remembered until its outcome is taken. Afterwards it counts as finished
/// without an error: the caller that took the error has handled it.
///
/// There are no cycles: add() takes only tasks that were added before, and a subtask may not wait
/// for a task that waits for its parent. Nothing here recurses, however long a chain is.
///
/// Thread: one
class TaskGraph {
public:
    static constexpr size_t kCountMax = size_t{1} << 21;

    /// `count_max`: the limit for tasks that are remembered.
    /// `instance`: TaskId::instance of its tasks.
    explicit TaskGraph(uint32_t client, size_t count_max = kCountMax, uint32_t instance = 0)
        : client_(client), instance_(instance), count_max_(count_max) {}

    /// Adds a task that starts once all of `after` have finished.
    /// Errors: kInvalidArgument, which names the task, if one of `after` was never given out or
    ///         belongs to another client; kBusy if too many tasks are remembered
    [[nodiscard]] Result<TaskId> add(std::span<const TaskId> after = {});
    /// Adds a subtask to a running task.
    /// Errors: as add(); kInvalidArgument if `parent` is not running, or if one of `after` is the
    ///         parent or waits for it
    [[nodiscard]] Result<TaskId> add_subtask(TaskId parent, std::span<const TaskId> after = {});
    /// Adds a task that is running already. `count_max` does not limit these.
    [[nodiscard]] TaskId add_running();

    /// The next task that may start, in the order in which they became ready. It is running from
    /// now on.
    [[nodiscard]] std::optional<TaskId> start_next();
    /// The own work of a running task has ended. The task can get no more subtasks.
    void finish(TaskId id, const Status& outcome);
    /// Ends a task that has not started yet, as if it had failed with `why`. False if it has
    /// started or ended.
    bool cancel(TaskId id, Error why);

    /// The next task that finished otherwise than in its own finish() or cancel(): one that it
    /// waited for failed, or its last subtask finished. Each is named once, and remembered here
    /// until then.
    [[nodiscard]] std::optional<TaskId> next_settled();

    /// Whether it has finished or failed, with all its subtasks. False for a task that was never
    /// given out.
    [[nodiscard]] bool is_finished(TaskId id) const noexcept;
    /// Whether it has failed and its error was not taken yet.
    [[nodiscard]] bool has_failed(TaskId id) const noexcept;
    /// The outcome of a task so far; ok if it was forgotten.
    [[nodiscard]] Status outcome(TaskId id) const;
    /// The outcome of a finished task, which is now forgotten; ok if it was forgotten before.
    /// Nothing if it has not finished.
    [[nodiscard]] std::optional<Status> take(TaskId id);
    /// Nobody will take its outcome: it is forgotten as soon as it has finished.
    void forget(TaskId id);

    [[nodiscard]] uint32_t client() const noexcept { return client_; }

    /// Of a client that learns its number late. Only before the first task.
    void set_client(uint32_t client) noexcept { client_ = client; }

    [[nodiscard]] TaskId id_of(uint64_t number) const noexcept {
        return {client_, number, instance_};
    }

    /// Tasks that are remembered.
    [[nodiscard]] size_t count() const noexcept { return tasks_.size(); }

    /// Memory in use, about, without the texts of errors; looks at every task.
    [[nodiscard]] size_t bytes() const noexcept;

private:
    enum class State : uint8_t {
        kWaiting,   ///< for other tasks
        kReady,     ///< in ready_
        kRunning,   ///< start_next() returned it
        kSubtasks,  ///< its own work has ended, some subtask has not
        kFinished,
    };

    struct Task {
        State state = State::kWaiting;
        bool is_unwanted = false;   ///< forget() was called
        bool is_inherited = false;  ///< the error is another task's, whose name is in its text
        uint32_t open_subtasks = 0;
        size_t waits_for = 0;            ///< tasks of `after` that have not finished
        uint64_t parent = 0;             ///< 0: none
        uint64_t visit = 0;              ///< the last search that came here
        size_t awaiting_max = 16;        ///< see await()
        std::vector<uint64_t> awaiting;  ///< tasks that wait for this one
        Status outcome;                  ///< the first error so far
    };

    [[nodiscard]] bool is_mine(TaskId id) const noexcept {
        return id.client == client_ && id.instance == instance_;
    }

    [[nodiscard]] bool was_given_out(TaskId id) const noexcept {
        return is_mine(id) && id.number > 0 && id.number < next_number_;
    }

    [[nodiscard]] Task* find(uint64_t number) noexcept;
    [[nodiscard]] const Task* find(TaskId id) const noexcept;
    [[nodiscard]] Status check(std::span<const TaskId> after) const;
    [[nodiscard]] std::optional<TaskId> waiting_for(uint64_t parent, std::span<const TaskId> after);
    [[nodiscard]] Result<TaskId> insert(uint64_t parent, std::span<const TaskId> after);
    void await(Task& before, uint64_t number);
    void note(Task& task, const Status& outcome);
    void inherit(Task& task, const Task& from, uint64_t number);
    void ended(uint64_t number, Task& task);
    void settle();
    void settle_one(uint64_t number);

    uint32_t client_;
    uint32_t instance_;
    size_t count_max_;
    uint64_t next_number_ = 1;
    uint64_t visit_ = 0;
    std::unordered_map<uint64_t, Task> tasks_;
    std::deque<uint64_t> ready_;
    size_t cancelled_ready_ = 0;    ///< tasks in ready_ that were cancelled
    std::deque<uint64_t> ended_;    ///< finished, but those that wait for it do not know yet
    std::deque<uint64_t> settled_;  ///< for next_settled()
};

}  // namespace weir

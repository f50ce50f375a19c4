// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// CallTasks: calls that wait for other calls, and handlers that run after calls.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "lib/base/result.h"
#include "lib/task/task_graph.h"
#include "lib/worker/calls/calls.h"

namespace weir {

/// Only calls that were named, that wait, that have a handler or that a handler made are tasks of
/// the graph. Any other call costs nothing here.
///
/// Calls report their end to `reports_`. advance() passes it on to the graph, starts what may
/// start, and ends the calls that the graph has ended. Nothing recurses: a call that ends while
/// another one is started only adds a report.
///
/// Thread: the client's
class CallTasks {
public:
    using CallId = Calls::Id;
    using Handler = std::function<void(const Status&)>;

    /// What starts a call that waits, and in which order.
    struct Waiting {
        /// Makes the call's requests. After an error none was made.
        std::function<Status(CallId, Call&)> start;
        std::vector<TaskId> after;
        /// The parts of an iteration in some tables do not start before the parts that were added
        /// earlier for these tables. 0: it has no such part.
        uint64_t iteration = 0;
        std::vector<uint32_t> tables;
        /// The caller's.
        std::vector<std::span<const std::byte>> memory;
    };

    CallTasks(uint32_t client, Calls& calls);

    /// Only before the first task.
    void set_client(uint32_t client) noexcept { graph_.set_client(client); }

    /// Whether advance() or run_handlers() has something to do.
    [[nodiscard]] bool has_work() const noexcept { return !reports_.empty() || !due_.empty(); }

    [[nodiscard]] bool is_in_handler() const noexcept { return is_in_handler_; }

    /// Whether a call that is made now becomes a subtask.
    [[nodiscard]] bool has_parent() const noexcept { return parent_ != 0; }

    [[nodiscard]] const TaskGraph& graph() const noexcept { return graph_; }

    /// The name of the call, the same each time.
    [[nodiscard]] TaskId name(CallId id, Call& call);
    /// The call, which is kStarting, starts once the tasks of `waiting.after` have finished, or
    /// now. In a handler it is a subtask of the handler's task.
    /// Errors: the call ends with `wrong` if that is an error, or with that of TaskGraph::add()
    void add(CallId id, Call& call, Waiting waiting, Status wrong);
    /// Runs `handler` after the call's requests have ended. If it has handlers already, runs it
    /// after them.
    void on_finished(CallId id, Call& call, Handler handler);
    /// Ends a call that has not started, if it has not.
    bool cancel(const Call& call, const Error& why);
    void cancel_waiting(const Error& why);
    /// Ends the waiting calls whose deadline has come, and returns the next one.
    [[nodiscard]] uint64_t expire(uint64_t now_ns);

    /// The last iteration whose part for this table waits; 0: none.
    [[nodiscard]] uint64_t last_waiting_iteration(uint32_t table) const;
    /// Whether a call that waits will use a part of this memory.
    [[nodiscard]] bool is_referenced(std::span<const std::byte> memory) const noexcept;

    void advance();
    /// Runs the handlers that are due. Does nothing in a handler. Returns how many tasks it did.
    size_t run_handlers();
    /// Forgets all handlers. These may own tasks, whose destructors then run.
    void drop_handlers();

private:
    enum class State : uint8_t {
        kWaiting,   ///< for other tasks
        kHeld,      ///< for the part of an earlier iteration; runs, as the graph sees it
        kRunning,   ///< its requests are made
        kDue,       ///< its requests have ended, its handlers are in due_
        kSubtasks,  ///< its handlers have run
    };

    /// A task that has not finished.
    struct Task {
        CallId call = 0;
        State state = State::kRunning;
        bool is_unwanted = false;          ///< nobody asks for its outcome
        std::unique_ptr<Waiting> waiting;  ///< until it starts
        std::vector<Handler> handlers;
    };

    /// Handlers to be run.
    struct Due {
        uint64_t task = 0;        ///< 0: one that had finished before
        bool has_started = true;  ///< else the graph has ended it: it gets no subtasks
        Status outcome;
        std::vector<Handler> handlers;
    };

    struct Part {
        uint64_t task = 0;
        uint64_t iteration = 0;
    };

    [[nodiscard]] Task* find(uint64_t number);
    [[nodiscard]] Result<TaskId> add_to_graph(std::span<const TaskId> after);
    Task& watch(CallId id, Call& call, uint64_t number);
    void pass_reports_on();
    void ended(uint64_t number, const Status& outcome);
    void unwatched(uint64_t number);
    void settled(TaskId id);
    void finished(TaskId id);
    void ready(uint64_t number);
    [[nodiscard]] bool start(Task& task);
    void withdraw_part(uint32_t table, uint64_t iteration, uint64_t number, const Error& why);
    [[nodiscard]] bool is_first(const Task& task, uint64_t number) const;
    void run(Due& due);
    [[nodiscard]] Error too_late(uint64_t number, const Task& task) const;

    Calls& calls_;
    TaskGraph graph_;
    std::unordered_map<uint64_t, Task> tasks_;  ///< by number in the graph
    /// By table: those that have not started, in the order of their iterations.
    std::unordered_map<uint32_t, std::deque<Part>> parts_;
    std::vector<CallReport> reports_;
    std::deque<Due> due_;
    bool is_in_handler_ = false;
    uint64_t parent_ = 0;  ///< the task whose handler runs, if that gets subtasks
};

}  // namespace weir

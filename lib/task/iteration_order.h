// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// IterationOrder: turns a consistency model into dependencies between the tasks of iterations.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "lib/base/result.h"
#include "lib/task/consistency.h"
#include "lib/task/task_graph.h"

namespace weir {

/// An iteration of one worker is the tasks that were added to it, for any number of tables; it is
/// finished when they are. The tasks of iteration t wait for what dependencies(t) names:
///
/// ```cpp
/// WEIR_TRY(order.begin(t));
/// WEIR_ASSIGN(const TaskId push, graph.add(order.dependencies(t)));
/// order.add(push);
/// ```
///
/// Thread: the graph's
class IterationOrder {
public:
    /// `graph` must live as long.
    IterationOrder(const TaskGraph& graph, Consistency consistency)
        : graph_(graph), consistency_(consistency) {}

    [[nodiscard]] Consistency consistency() const noexcept { return consistency_; }

    /// From the next question on; what has been answered stays as it is.
    void set_consistency(Consistency consistency) noexcept { consistency_ = consistency; }

    /// The tasks that follow belong to `iteration`, which need not be the next one: a worker that
    /// joins begins later than 1. It may begin before it may run, since its tasks wait.
    /// Errors: kInvalidArgument if it is 0 or not above the one before
    [[nodiscard]] Status begin(uint64_t iteration);
    /// Adds a task to the iteration that began last. It must be of the graph.
    void add(TaskId task);

    /// Whether all iterations that the model names are finished. A failed one counts as finished.
    /// Does not block.
    [[nodiscard]] bool may_begin(uint64_t iteration) { return may_begin(iteration, consistency_); }

    /// The same under another model.
    [[nodiscard]] bool may_begin(uint64_t iteration, Consistency consistency);

    /// What the tasks of `iteration` must wait for: the open tasks of the iterations that the
    /// model names, and failed ones whose error was not taken, so that it is passed on.
    [[nodiscard]] std::vector<TaskId> dependencies(uint64_t iteration) {
        return dependencies(iteration, consistency_);
    }

    [[nodiscard]] std::vector<TaskId> dependencies(uint64_t iteration, Consistency consistency);

    /// The iteration that began last; 0: none.
    [[nodiscard]] uint64_t last() const noexcept { return last_; }

    /// Tasks that have not finished, or that failed and were not taken. Finished ones are dropped
    /// when a question is asked or an iteration begins.
    [[nodiscard]] size_t count() const noexcept { return tasks_.size(); }

private:
    struct Entry {
        uint64_t iteration = 0;
        TaskId task;
    };

    void drop_finished();

    const TaskGraph& graph_;
    Consistency consistency_;
    uint64_t last_ = 0;
    std::deque<Entry> tasks_;  ///< by iteration
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Iterations: a worker's iterations over any number of tables, under a consistency model.

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/task/consistency.h"
#include "lib/task/task_id.h"
#include "lib/worker/client.h"
#include "lib/worker/table.h"

namespace weir {

class IterationOrder;

/// An iteration is the tasks that were added to it, and is finished when they are. Iteration t
/// begins when all iterations are finished that the model names: sequential: all before it;
/// bounded(tau): 1 .. t - tau - 1; eventual: none.
///
/// ```cpp
/// weir::Iterations iterations(client, weir::Consistency::bounded(2));
/// for (uint64_t t = 1; t <= 100; ++t) {
///     WEIR_TRY(iterations.begin(t));
///     WEIR_TRY(table.pull(all, weights).wait());
///     ...  // compute
///     pushes.add(iterations.push(table, all, gradient[t % 3]));  // one buffer per open iteration
/// }
/// ```
///
/// Nothing here but dependencies between tasks: add() takes any task, and dependencies() is what a
/// call of iteration t can name as PushOptions::after in place of waiting in begin().
///
/// Thread: the client's
class Iterations {
public:
    struct BeginOptions {
        Consistency consistency;  ///< of this iteration alone
        /// 0: the client's deadline (WEIR_DEADLINE_MS). Each task has its own deadline, too.
        std::chrono::nanoseconds at_most{0};
    };

    explicit Iterations(Client& client, Consistency consistency = Consistency::sequential());
    ~Iterations();
    Iterations(const Iterations&) = delete;
    Iterations& operator=(const Iterations&) = delete;

    [[nodiscard]] Consistency consistency() const noexcept;
    /// From the next iteration on.
    void set_consistency(Consistency consistency) noexcept;

    /// Whether `iteration` may begin. If not, polls the client once. Does not block. A failed
    /// task counts as finished: begin() returns its error.
    [[nodiscard]] bool may_begin(uint64_t iteration);
    [[nodiscard]] bool may_begin(uint64_t iteration, Consistency consistency);

    /// Waits until `iteration` may begin. The tasks that are added from then on belong to it.
    /// Errors: kInvalidArgument if it is 0 or not above the last one, or if it would have to wait
    ///         in a handler; kDeadline; the error of a task of the iterations that it builds on,
    ///         until that was taken (Task::wait). After an error it has not begun.
    [[nodiscard]] Status begin(uint64_t iteration, std::chrono::nanoseconds at_most = {}) {
        return begin(iteration, {consistency(), at_most});
    }

    [[nodiscard]] Status begin(uint64_t iteration, const BeginOptions& options);

    /// The iteration that began last; 0: none.
    [[nodiscard]] uint64_t last() const noexcept;

    /// Adds a task to the iteration that began last. It may be moved or taken afterwards.
    /// Errors: kInvalidArgument if none has begun, or if the task is of another client
    [[nodiscard]] Status add(Task& task);

    /// What must be finished before `iteration` begins, and is not.
    [[nodiscard]] std::vector<TaskId> dependencies(uint64_t iteration);

    /// Starts this worker's push of the iteration that began last, and adds it to that. The servers
    /// combine the pushes of all workers (PushOptions::iteration), so it is finished when those of
    /// all workers are in. With Consistency::eventual() no worker waits for others: then it is a
    /// push of its own.
    ///
    /// Errors:  through the task: kInvalidArgument if none has begun, or if tau is above the
    ///          table's max_delay; see Table::push
    template <Value T, class Keys>
    Task push(Table<T>& table, Keys&& keys, std::type_identity_t<std::span<const T>> values,
              PushOptions options = {}) {
        if (const Status wrong = check_push(table.schema().max_delay); !wrong)
            return failed(wrong, table.schema());
        if (!began_with_.is_eventual()) options.iteration = last();
        Task task = table.push(std::forward<Keys>(keys), values, options);
        if (const Status added = add(task); !added) return failed(added, table.schema());
        return task;
    }

private:
    [[nodiscard]] Status check_push(uint64_t max_delay) const;
    [[nodiscard]] Task failed(const Status& why, const TableSchema& table) const;

    std::shared_ptr<ClientState> state_;
    std::unique_ptr<IterationOrder> order_;
    Consistency began_with_;  ///< the model of the iteration that began last
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Iterations: a worker's iterations over any number of tables, under a consistency model.

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/store/table_schema.h"
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
/// A table counts its own iterations, one after the other: push() is the table's next one
/// (Table::next_iteration), whatever t is. So an iteration may leave a table out, be eventual, or
/// have its push refused; what matters is that all workers push to a table equally often.
///
/// ```cpp
/// weir::Iterations iterations(client, weir::Consistency::bounded(2));
/// WEIR_ASSIGN(auto table, iterations.create_table<float>("weights", options));
/// for (uint64_t t = 1; t <= 100; ++t) {
///     WEIR_TRY(iterations.begin(t));
///     WEIR_TRY(iterations.pull(table, all, weights).wait());
///     WEIR_ASSIGN(const std::span<float> gradient, iterations.values(table));
///     ...  // compute it
///     pushes.add(iterations.push(table, all, gradient));
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
        /// 0: without an end of its own. Each task has its own deadline, too.
        std::chrono::nanoseconds at_most{0};
    };

    explicit Iterations(Client& client, Consistency consistency = Consistency::sequential());
    ~Iterations();
    Iterations(const Iterations&) = delete;
    Iterations& operator=(const Iterations&) = delete;

    [[nodiscard]] Consistency consistency() const noexcept;
    /// From the next iteration on.
    void set_consistency(Consistency consistency) noexcept;

    /// Client::create_table() of a table that takes parts of as many iterations at once as the model
    /// leaves open: its max_delay is that of `options`, or tau if that is greater. All workers give the
    /// same model.
    template <Value T>
    [[nodiscard]] Result<Table<T>> create_table(std::string_view name, TableOptions options,
                                                std::span<const TaskId> after = {}) {
        options.max_delay = max_delay_for(options.max_delay);
        auto info = access::create_table(*state_, name, value_type_of<T>(), options, after);
        if (!info) return std::move(info).error();
        return Table<T>(state_, std::move(*info));
    }

    /// Whether `iteration` may begin. If not, polls the client once. Does not block. A failed
    /// task counts as finished: begin() returns its error. Only this worker's tasks count: one that
    /// has just joined may begin at once, and its pull() waits for the others.
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

    /// Registered memory for the push of the iteration that began last: `count` values (0: those of all
    /// keys of a dense table), which are what an earlier push has left there, or zeros. It is this
    /// iteration's until the next one begins, and free again when the pushes that were made of it have
    /// ended. A table has tau + 1 of them, so begin() has waited for one; under Consistency::eventual() it
    /// has kEventualBuffers, and this waits until one is free.
    /// Errors: kInvalidArgument if none has begun, if the table is another client's, for other than the
    ///         first number of values in an iteration, for 0 of a sparse table, or if it would have to
    ///         wait in a handler; kNoMemory
    template <Value T>
    [[nodiscard]] Result<std::span<T>> values(const Table<T>& table, size_t count = 0) {
        if (count == 0 && table.schema().layout == Layout::kDense)
            count = table.schema().key_count * table.pushed_width();
        WEIR_ASSIGN(std::byte* const memory,
                    memory_of(table.state_, table.schema(), count, sizeof(T)));
        return std::span<T>(reinterpret_cast<T*>(memory), count);
    }

    static constexpr size_t kEventualBuffers = 4;

    /// What must be finished before `iteration` begins, and is not.
    [[nodiscard]] std::vector<TaskId> dependencies(uint64_t iteration);

    /// Starts this worker's push of the iteration that began last, and adds it to that. The servers
    /// combine the pushes of all workers (PushOptions::iteration, which is set here), so it is
    /// finished when those of all workers are in. With Consistency::eventual() no worker waits for
    /// others: then it is a push of its own.
    ///
    /// Errors:  through the task: kInvalidArgument if none has begun, if it has pushed to the table
    ///          before, if the table is another client's, or if tau is above its max_delay; see
    ///          Table::push
    template <Value T>
    Task push(Table<T>& table, KeySpan keys, std::type_identity_t<ValueSpan<const T>> values,
              const PushOptions& options = {}) {
        return push_of(table, keys, values, options);
    }

    template <Value T>
    Task push(Table<T>& table, KeyRange keys, std::type_identity_t<ValueSpan<const T>> values,
              const PushOptions& options = {}) {
        return push_of(table, keys, values, options);
    }

    /// Keys as they come: `values` has a row for each of them.
    template <Value T>
    Task push(Table<T>& table, KeyBatch& batch, std::type_identity_t<ValueSpan<const T>> values,
              const PushOptions& options = {}) {
        return push_of(table, batch, values, options);
    }

    template <Value T>
    Task push(Table<T>& table, std::initializer_list<uint64_t> keys_or_range,
              std::type_identity_t<ValueSpan<const T>> values,
              const PushOptions& options = {}) = delete;  // as Table::push

    /// Starts a pull that names the oldest iteration of the table that will do for the one that
    /// began last, tau + 1 before its own push there (PullOptions::iteration, which is set here).
    /// It waits for that one only if this worker has joined since. Task::iteration_shown() says, in
    /// the table's count, what the values show; Staleness makes a staleness of it. It names none
    /// with Consistency::eventual(), in the first tau + 1 iterations of a table, and if this worker
    /// takes part in none; then nothing may be shown yet. It is not added to the iteration.
    ///
    /// Errors:  through the task: kInvalidArgument if none has begun, or if the table is another
    ///          client's; see Table::pull
    template <Value T>
    Task pull(Table<T>& table, KeySpan keys, std::type_identity_t<ValueSpan<T>> out,
              const PullOptions& options = {}) {
        return pull_of(table, keys, out, options);
    }

    template <Value T>
    Task pull(Table<T>& table, KeyRange keys, std::type_identity_t<ValueSpan<T>> out,
              const PullOptions& options = {}) {
        return pull_of(table, keys, out, options);
    }

    template <Value T>
    Task pull(Table<T>& table, KeyBatch& batch, std::type_identity_t<ValueSpan<T>> out,
              const PullOptions& options = {}) {
        return pull_of(table, batch, out, options);
    }

    template <Value T>
    Task pull(Table<T>& table, std::initializer_list<uint64_t> keys_or_range,
              std::type_identity_t<ValueSpan<T>> out,
              const PullOptions& options = {}) = delete;  // as Table::pull

private:
    /// Of a table that was used in the iteration that began last.
    struct InTable {
        uint32_t table = 0;
        uint64_t iteration = 0;  ///< the table's own, for which that one pushes
    };

    template <Value T, class Keys>
    Task push_of(Table<T>& table, Keys& keys, ValueSpan<const T> values, PushOptions options) {
        const access::Turn turn(*state_);
        if (!turn) return Task(turn.error());
        if (const Status wrong = check_may_use(table.state_, "a push"); !wrong)
            return failed(wrong, table.schema());
        const Result<std::optional<uint64_t>> number =
            number_of_push(table.schema(), table.next_iteration());
        if (!number) return failed(number.error(), table.schema());
        options.iteration = *number;
        Task task = table.push(keys, values, options);
        if (const Status added = add(task); !added) return failed(added, table.schema());
        return task;
    }

    template <Value T, class Keys>
    Task pull_of(Table<T>& table, Keys& keys, ValueSpan<T> out, PullOptions options) {
        const access::Turn turn(*state_);
        if (!turn) return Task(turn.error());
        if (const Status wrong = check_may_use(table.state_, "a pull"); !wrong)
            return failed(wrong, table.schema());
        options.iteration = oldest_for_pull(table.schema(), table.next_iteration());
        return table.pull(keys, out, options);
    }

    /// What values() has given out.
    struct Memory {
        uint32_t table = 0;
        uint64_t iteration = 0;  ///< that it was given to last
        size_t bytes = 0;        ///< that were asked for
        size_t room_bytes = 0;
        std::shared_ptr<std::byte> at{};
    };

    [[nodiscard]] uint32_t max_delay_for(uint32_t asked) const noexcept;
    [[nodiscard]] Result<std::byte*> memory_of(const std::shared_ptr<ClientState>& owner,
                                               const TableSchema& table, size_t count,
                                               size_t value_bytes);
    [[nodiscard]] Memory* free_memory(uint32_t table) noexcept;

    /// A call that belongs to the iteration that began last, in a table of `owner`.
    [[nodiscard]] Status check_may_use(const std::shared_ptr<ClientState>& owner,
                                       const char* what) const;
    /// `next`: Table::next_iteration().
    [[nodiscard]] Result<std::optional<uint64_t>> number_of_push(const TableSchema& table,
                                                                 std::optional<uint64_t> next);
    [[nodiscard]] std::optional<uint64_t> oldest_for_pull(const TableSchema& table,
                                                          std::optional<uint64_t> next);
    [[nodiscard]] uint64_t iteration_in(const TableSchema& table, uint64_t next);
    [[nodiscard]] Task failed(const Status& why, const TableSchema& table) const;

    std::shared_ptr<ClientState> state_;
    std::unique_ptr<IterationOrder> order_;
    Consistency began_with_;          ///< the model of the iteration that began last
    std::vector<InTable> in_tables_;  ///< of that iteration
    std::vector<Memory> memory_;
};

}  // namespace weir

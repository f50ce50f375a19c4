// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ClientExchange: the solver's BlockExchange over tables of a parameter server.

#include <deque>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/apps/lr/block_exchange.h"
#include "lib/base/clock.h"
#include "lib/data/file_share.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/weir.h"

namespace weir::apps {

/// Registers the functions of L-BFGS, and the update rule that maxima by key need: it sets the value to the greatest of
/// all workers' pushes of an iteration. Pass it as JobOptions::add_rules.
void add_exchange_rules(RuleRegistry& rules);

/// It uses one table of weights (rule prox_l1) and one table per kind of collective that Client does not
/// have.
/// Thread: the worker's own.
class ClientExchange final : public BlockExchange {
public:
    /// Makes or finds the tables, whose names begin with `name`. All workers call it. `place`: this
    /// worker's index and the number of workers that take part. `filters`: of the weights; what the workers
    /// agree on in between must be exact, and goes through the codecs of them alone. `max_delay`: of the weights, as
    /// TableOptions has it.
    /// Errors: those of Client::create_table
    [[nodiscard]] static Result<std::unique_ptr<ClientExchange>> make(Client& client,
                                                                      std::string_view name,
                                                                      double l1, data::Part place,
                                                                      const Filters& filters = {},
                                                                      uint32_t max_delay = 0);

    /// The same with other weights than those of prox_l1, on which push() and pull() are not called.
    [[nodiscard]] static Result<std::unique_ptr<ClientExchange>> make(Client& client,
                                                                      std::string_view name,
                                                                      const TableOptions& weights,
                                                                      data::Part place,
                                                                      const Filters& filters = {});

    /// The weights, as an exchange of that name keeps them; also of one whose workers have gone.
    /// Returns how many iterations they show at least.
    /// Shape:  keys sorted, unique; out.size() == keys.size() * width. A key never pushed reads as 0.
    /// Errors: those of Client::open_table and Table::pull
    [[nodiscard]] static Result<uint64_t> read_weights(Client& client, std::string_view name,
                                                       std::span<const uint64_t> keys,
                                                       std::span<double> out, uint32_t width = 1);

    /// Drops the tables of an exchange that no worker uses any more; `keeps_weights`: but that of weights.
    /// Those that are not there are no error.
    /// Errors: those of Client::drop_table
    [[nodiscard]] static Status drop(Client& client, std::string_view name, bool keeps_weights);

    /// The name of an exchange, if this is that of its table of weights.
    [[nodiscard]] static std::optional<std::string_view> exchange_of_weights(
        std::string_view table) noexcept;

    [[nodiscard]] const Table<double>& weights() const noexcept { return tables_.weights; }

    [[nodiscard]] uint32_t worker_index() const noexcept override { return place_.index; }

    [[nodiscard]] uint32_t worker_count() const noexcept override { return place_.count; }

    [[nodiscard]] Result<std::span<double>> make_buffer(uint64_t count) override;
    void push(uint64_t iteration, std::span<const uint64_t> keys, std::span<const double> pairs,
              double rest) override;
    void pull(uint64_t iteration, std::span<const uint64_t> keys, std::span<double> out) override;
    [[nodiscard]] Status wait(uint64_t iteration) override;
    [[nodiscard]] uint64_t arrived() override;
    void start_sum(std::span<const double> mine, std::span<double> all) override;
    [[nodiscard]] Status finish_sum() override;
    [[nodiscard]] Status sum(std::span<double> values) override;
    [[nodiscard]] Status sum_at_first(std::span<double> values) override;
    [[nodiscard]] Status max(std::span<double> values) override;
    [[nodiscard]] Status barrier() override;
    [[nodiscard]] Status sum_by_key(std::span<const uint64_t> keys,
                                    std::span<double> values) override;

    [[nodiscard]] Status max_by_key(std::span<const uint64_t> keys,
                                    std::span<double> values) override;
    [[nodiscard]] Status concatenate(uint64_t begin, std::span<const uint64_t> mine,
                                     std::span<uint64_t> all) override;

    [[nodiscard]] uint64_t waited_ns() const noexcept override { return waited_ns_; }

private:
    struct Outstanding {
        uint64_t iteration;
        Task task;
    };

    struct Tables {
        Table<double> weights;
        Table<double> sums_by_key;
        Table<double> maxima_by_key;
        Table<uint64_t> lists;
        Table<double> sums;
    };

    ClientExchange(Client& client, data::Part place, Tables tables)
        : client_(client), place_(place), tables_(std::move(tables)) {}

    /// Counts the time that wait() takes.
    template <class Wait>
    [[nodiscard]] Status waiting(Wait&& wait);
    // Another collective is one iteration of its own table: push_part(), then pull_whole().
    template <class T, class Keys>
    [[nodiscard]] Status push_part(Table<T>& table, uint64_t iteration, Keys keys,
                                   std::span<const T> values);
    template <class T, class Keys>
    [[nodiscard]] Status pull_whole(Table<T>& table, uint64_t iteration, Keys keys,
                                    std::span<T> out);
    [[nodiscard]] Status finish(Task task);
    Status fail(Status why);

    Client& client_;
    data::Part place_;
    Tables tables_;
    SteadyClock clock_;
    std::vector<Buffer<double>> buffers_;
    std::deque<Outstanding> outstanding_;  ///< in rising order of iterations
    uint64_t pushed_ = 0;                  ///< the last iteration
    std::optional<Task> sum_pushed_;       ///< of start_sum()
    std::optional<Task> sum_pulled_;
    uint64_t sum_by_key_iteration_ = 0;
    uint64_t max_by_key_iteration_ = 0;
    uint64_t list_iteration_ = 0;
    uint64_t sum_iteration_ = 0;
    uint64_t waited_ns_ = 0;
};

}  // namespace weir::apps

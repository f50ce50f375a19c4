// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/lbfgs/tables.h"

#include <fmt/core.h>

#include "lib/apps/lbfgs/functions.h"
#include "lib/store/rules/builtin_rules.h"

namespace weir::apps {
namespace {

// Behind the name of the exchange, as are the weights.
constexpr std::string_view kGradientTable = ".gradients";
constexpr std::string_view kStepTable = ".steps";
constexpr std::string_view kHistoryTable = ".history";

/// Of a function that reads.
Result<CallResult> found(Table<double>& table, std::string_view function, FunctionOptions options) {
    CallResult result;
    options.result = &result;
    WEIR_TRY(table.call(function, options).wait());
    return result;
}

}  // namespace

TableOptions LbfgsTables::weights_options(uint32_t width, const Filters& filters) {
    TableOptions options;
    options.width = width;
    options.rule = weir::sum();
    options.filters = filters.without_selectors();
    return options;
}

Result<LbfgsTables> LbfgsTables::make(Client& client, std::string_view name, Table<double> weights,
                                      const Shape& shape, const Filters& filters) {
    const auto make_table = [&](std::string_view table, uint32_t width) {
        TableOptions options = weights_options(width, filters);
        options.in_checkpoints = false;  // a job that goes on begins with another gradient
        return client.create_table<double>(fmt::format("{}{}", name, table), options);
    };
    WEIR_ASSIGN(Table<double> gradients, make_table(kGradientTable, shape.width));
    WEIR_ASSIGN(Table<double> steps, make_table(kStepTable, shape.width));
    WEIR_ASSIGN(Table<double> history,
                make_table(kHistoryTable, shape.width * LbfgsDirection::basis_count(shape.pairs)));
    return LbfgsTables(shape, std::move(weights), std::move(gradients), std::move(steps),
                       std::move(history));
}

Status LbfgsTables::drop(Client& client, std::string_view name) {
    for (const std::string_view table : {kGradientTable, kStepTable, kHistoryTable}) {
        Status dropped = client.drop_table(fmt::format("{}{}", name, table));
        if (!dropped && dropped.code() != Errc::kNotFound) return dropped;
    }
    return {};
}

Status LbfgsTables::begin(std::span<const uint64_t> keys, std::span<const double> weights) {
    return weights_.push(keys, weights, {.iteration = ++weights_iteration_}).wait();
}

Status LbfgsTables::pull_weights(std::span<const uint64_t> keys, std::span<double> out) {
    return weights_.pull(keys, out, {.iteration = weights_iteration_}).wait();
}

Status LbfgsTables::push_gradient(std::span<const uint64_t> keys,
                                  std::span<const double> gradient) {
    return gradients_.push(keys, gradient, {.iteration = ++gradient_iteration_}).wait();
}

Status LbfgsTables::keep(uint32_t slot, double length) {
    const double place = length != 0 ? slot : -1.0;
    return history_
        .call(lbfgs::kKeep, own_,
              {.numbers = {place, length, shape_.l2}, .with = {gradients_, weights_, steps_}})
        .wait();
}

Result<std::vector<double>> LbfgsTables::products(uint32_t slot) {
    WEIR_ASSIGN(
        CallResult result,
        found(history_, lbfgs::kProducts,
              {.numbers = {static_cast<double>(slot), shape_.l1, static_cast<double>(shape_.pairs)},
               .with = weights_}));
    return std::move(result.numbers);
}

Status LbfgsTables::make_step(double length, std::span<const double> factors) {
    FunctionOptions options{.numbers = {length, shape_.l1}, .with = {history_, weights_}};
    options.numbers.insert(options.numbers.end(), factors.begin(), factors.end());
    return steps_.call(lbfgs::kStep, own_, options).wait();
}

Result<LbfgsTables::StepSums> LbfgsTables::step_sums() {
    WEIR_ASSIGN(
        const CallResult result,
        found(steps_, lbfgs::kStepSums, {.numbers = {shape_.l1}, .with = {history_, weights_}}));
    const std::vector<double>& sums = result.numbers;
    return StepSums{sums[0], sums[1], sums[2], sums[3]};
}

Status LbfgsTables::pull_step(std::span<const uint64_t> keys, std::span<double> out) {
    return steps_.pull(keys, out).wait();
}

Status LbfgsTables::take_step(double length) {
    WEIR_TRY(weights_.call("axpy", own_, {.numbers = {length}, .with = steps_}).wait());
    // So that the table tells how far it has come, also to those that go on from it.
    return begin({}, {});
}

}  // namespace weir::apps

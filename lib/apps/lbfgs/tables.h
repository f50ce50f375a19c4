// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LbfgsTables: the vectors of L-BFGS on the servers, and what servers compute with them.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/weir.h"

namespace weir::apps {

/// Gradients go up and steps come down; weights and history stay where they are.
///
/// All workers make the same calls in the same order, but for those of one worker. They return when this worker's part
/// has taken effect: what reads it at others' keys needs a barrier. Thread: the worker's own
class LbfgsTables {
public:
    struct Shape {
        uint32_t width = 1;  ///< values of a feature
        uint32_t pairs = 1;  ///< of the history
        double l1 = 0;
        double l2 = 0;
    };

    /// What one step comes to. Products of the step and the (pseudo-)gradient, the weights and itself; |w + d|_1.
    struct StepSums {
        double slope = 0;
        double with_weights = 0;
        double square = 0;
        double norm1 = 0;
    };

    /// Of a table of weights, so many for each feature.
    [[nodiscard]] static TableOptions weights_options(uint32_t width, const Filters& filters);

    /// Makes or finds the other tables, whose names begin with `name`.
    /// Errors: those of Client::create_table
    [[nodiscard]] static Result<LbfgsTables> make(Client& client, std::string_view name,
                                                  Table<double> weights, const Shape& shape,
                                                  const Filters& filters);
    /// Drops them. Those that are not there are no error.
    [[nodiscard]] static Status drop(Client& client, std::string_view name);

    /// The keys of the features on which this worker calls functions, as no other does.
    void set_own(std::vector<uint64_t> keys) { own_ = std::move(keys); }

    /// The weights to start from, of some of its own features; others stay 0.
    [[nodiscard]] Status begin(std::span<const uint64_t> keys, std::span<const double> weights);
    [[nodiscard]] Status pull_weights(std::span<const uint64_t> keys, std::span<double> out);

    /// The gradient of the loss over this worker's examples. Returns when the servers have the sum over all workers'.
    [[nodiscard]] Status push_gradient(std::span<const uint64_t> keys,
                                       std::span<const double> gradient);
    /// The gradient becomes that of the history. `length`: of the step to it, whose pair goes to `slot`; 0: there
    /// was no step.
    [[nodiscard]] Status keep(uint32_t slot, double length);
    /// Of one worker: what LbfgsDirection needs, then |w|^2, |w|_1 and the number of features with weights.
    [[nodiscard]] Result<std::vector<double>> products(uint32_t slot);
    /// The step becomes `length` times the direction with these factors.
    [[nodiscard]] Status make_step(double length, std::span<const double> factors);
    /// Of one worker.
    [[nodiscard]] Result<StepSums> step_sums();
    [[nodiscard]] Status pull_step(std::span<const uint64_t> keys, std::span<double> out);
    /// Adds `length` times the step to the weights. Returns when all workers have.
    [[nodiscard]] Status take_step(double length);

private:
    LbfgsTables(const Shape& shape, Table<double> weights, Table<double> gradients,
                Table<double> steps, Table<double> history)
        : shape_(shape),
          weights_(std::move(weights)),
          gradients_(std::move(gradients)),
          steps_(std::move(steps)),
          history_(std::move(history)) {}

    Shape shape_;
    Table<double> weights_;
    Table<double> gradients_;
    Table<double> steps_;
    Table<double> history_;
    std::vector<uint64_t> own_;
    uint64_t gradient_iteration_ = 0;
    uint64_t weights_iteration_ = 0;
};

}  // namespace weir::apps

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LinearExamples: a worker's examples under a linear model: their scores, the loss along a step, and its gradient.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "lib/apps/loss.h"
#include "lib/data/feature_matrix.h"

namespace weir::apps {

/// A weight and a step of each feature has function().width() values side by side; so has a score of each example.
/// Thread: the worker's own
class LinearExamples {
public:
    struct Loss {
        double loss = 0;   ///< summed over the examples; the squared one with its half
        double slope = 0;  ///< its derivative by the length of the step
    };

    /// Scores are 0.
    LinearExamples(data::FeatureMatrix matrix, LossFunction function);

    [[nodiscard]] const data::FeatureMatrix& matrix() const noexcept { return matrix_; }

    [[nodiscard]] std::span<const float> targets() const noexcept { return targets_; }

    [[nodiscard]] std::span<const double> scores() const noexcept { return scores_; }

    [[nodiscard]] size_t value_count() const noexcept {
        return matrix_.column_count() * function_.width();
    }

    [[nodiscard]] uint64_t data_bytes() const noexcept;

    /// The scores are those of these weights.
    void set_weights(std::span<const double> weights);
    /// The step whose loss is asked for.
    void set_step(std::span<const double> steps);
    /// At scores + length * those of the step. The next gradient() is of that place.
    [[nodiscard]] Loss loss_at(double length);
    /// The weights have moved by length * the step.
    void move(double length);
    /// The derivatives of the loss by each weight, at the place of the last loss_at().
    void gradient(std::span<double> out) const;

    [[nodiscard]] const LossSums& sums() const noexcept { return sums_; }

private:
    void multiply(std::span<const double> weights, std::span<double> scores) const;

    data::FeatureMatrix matrix_;
    LossFunction function_;
    std::vector<float> targets_;  ///< by example
    std::vector<double> scores_;
    std::vector<double> moved_;   ///< of the step
    std::vector<double> slopes_;  ///< by score, of the last loss_at()
    LossSums sums_;               ///< of the last loss_at()
};

}  // namespace weir::apps

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LossFunction: what a linear model is trained for: the loss of scores and its slopes, and the labels that fit it.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace weir::apps {

enum class Loss : uint8_t {
    kLogistic,  ///< log(1 + exp(-y s)), y -1 or +1
    kSoftmax,   ///< log(sum_k exp(s_k)) - s_y, y one of the classes
    kSquared,   ///< (s - y)^2 / 2, y any number
};

/// "logistic", "softmax", "squared".
[[nodiscard]] std::string_view name_of(Loss loss) noexcept;
[[nodiscard]] std::optional<Loss> loss_named(std::string_view name) noexcept;

/// What examples cost, and how many were told right; sums.
struct LossSums {
    double loss = 0;     ///< of the squared loss without the half: (s - y)^2
    uint64_t right = 0;  ///< of classes; an example with a score of 0 is told -1
};

/// Thread: any; it keeps nothing from one call to the next.
class LossFunction {
public:
    LossFunction() = default;

    /// `classes`: of a softmax.
    LossFunction(Loss loss, uint32_t class_count) noexcept
        : loss_(loss), width_(loss == Loss::kSoftmax ? class_count : 1) {}

    [[nodiscard]] Loss loss() const noexcept { return loss_; }

    /// Scores of an example, and weights of a feature.
    [[nodiscard]] uint32_t width() const noexcept { return width_; }

    /// Adds the losses of some examples to `sums`, and replaces their scores by the slopes of these losses.
    ///
    /// Shape:  scores.size() == targets.size() * width(); targets: -1 and +1, the place of a class, or a number
    void take(std::span<const float> targets, std::span<float> scores,
              LossSums& sums) const noexcept;
    void take(std::span<const float> targets, std::span<double> scores,
              LossSums& sums) const noexcept;

private:
    Loss loss_ = Loss::kLogistic;
    uint32_t width_ = 1;
};

}  // namespace weir::apps

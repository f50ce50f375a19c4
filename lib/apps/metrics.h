// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Metrics: how well scores tell the classes. Accuracy, log loss and AUC, over all workers; of a squared loss its mean.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/apps/loss.h"
#include "lib/apps/lr/block_exchange.h"

namespace weir::apps {

/// The scores (w.x) of examples, by their class.
struct Scores {
    std::vector<double> positive;
    std::vector<double> negative;

    /// labels[i] is -1 or +1; an example with label 0 has no class and is left out.
    void add(std::span<const int8_t> labels, std::span<const double> scores);
};

struct Metrics {
    uint64_t example_count = 0;
    double accuracy = 0;  ///< the share of right predictions; a score of 0 predicts -1
    double log_loss = 0;  ///< the mean of log(1 + exp(-y w.x))
    /// The share of pairs of a positive and a negative example in which the positive one has the
    /// higher score; equal scores count half. None if there is no such pair.
    std::optional<double> auc;
    Loss loss = Loss::kLogistic;  ///< of a squared one, squared_error is all that there is
    double squared_error = 0;     ///< the mean of (w.x - y)^2
};

/// Of sums over all examples, of a softmax or a squared loss.
[[nodiscard]] Metrics measure(Loss loss, const LossSums& sums, uint64_t example_count);
/// Of all workers' sums. A collective.
/// Errors: the exchange's
[[nodiscard]] Result<Metrics> measure(BlockExchange& exchange, Loss loss, const LossSums& sums,
                                      uint64_t example_count);

/// Computes the metrics of all workers' examples together. A collective; sorts `scores`.
/// AUC is exact, ties included. All workers receive the scores of the rarer class, a window at a
/// time, and each counts its own scores of the other class below them. That sends 8 bytes per
/// worker and example of the rarer class.
/// Errors: the exchange's
[[nodiscard]] Result<Metrics> measure(BlockExchange& exchange, Scores& scores);

/// The same for the examples of one process.
[[nodiscard]] Metrics measure(Scores& scores);

}  // namespace weir::apps

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// dual_bound: how low the objective can be at all.

#include <cstdint>
#include <span>

#include "lib/apps/lr/block_exchange.h"
#include "lib/base/result.h"

namespace weir::apps {

/// A lower bound of the optimum of  sum_i log(1 + exp(-y_i w.x_i)) + l1 |w|_1: the dual objective at the dual point of
/// the margins, scaled into the feasible set. 0 if l1 is 0: then no other point is sure to be feasible. A collective.
///
/// steepest: the greatest size of the gradients of this worker's features, of all workers' loss
/// objective: at these margins
/// Errors: those of the exchange
[[nodiscard]] Result<double> dual_bound(BlockExchange& exchange, std::span<const int8_t> labels,
                                        std::span<const double> margins, double l1, double steepest,
                                        double objective);

}  // namespace weir::apps

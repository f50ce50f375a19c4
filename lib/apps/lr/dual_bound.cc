// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/lr/dual_bound.h"

#include <algorithm>

#include "lib/linalg/logistic.h"

namespace weir::apps {

Result<double> dual_bound(BlockExchange& exchange, std::span<const int8_t> labels,
                          std::span<const double> margins, double l1, double steepest,
                          double objective) {
    if (l1 == 0) return 0.0;
    WEIR_TRY(exchange.max({&steepest, 1}));
    double dual = linalg::logistic_dual(labels, margins, steepest > l1 ? l1 / steepest : 1.0);
    WEIR_TRY(exchange.sum({&dual, 1}));
    return std::min(dual, objective);
}

}  // namespace weir::apps

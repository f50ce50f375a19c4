// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/lr/sparse_weights.h"

namespace weir::apps {

SparseWeights SparseWeights::of(std::span<const double> weights) {
    SparseWeights sparse;
    for (uint64_t column = 0; column < weights.size(); ++column) {
        if (weights[column] == 0) continue;
        sparse.columns.push_back(static_cast<uint32_t>(column));
        sparse.values.push_back(weights[column]);
    }
    return sparse;
}

SparseWeights add_scaled(const SparseWeights& a, double factor, const SparseWeights& b) {
    SparseWeights sum;
    sum.columns.reserve(a.size() + b.size());
    sum.values.reserve(a.size() + b.size());
    for_each_column(a, b, [&](uint32_t column, double x, double y) {
        sum.columns.push_back(column);
        sum.values.push_back(x + factor * y);
    });
    return sum;
}

}  // namespace weir::apps

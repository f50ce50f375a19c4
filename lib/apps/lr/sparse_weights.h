// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SparseWeights: the weights that are not 0, by column of a worker's matrix.

#include <cstdint>
#include <span>
#include <vector>

namespace weir::apps {

struct SparseWeights {
    std::vector<uint32_t> columns;  ///< rising
    std::vector<double> values;     ///< beside columns

    [[nodiscard]] uint64_t size() const noexcept { return columns.size(); }

    [[nodiscard]] static SparseWeights of(std::span<const double> weights);
};

/// Calls visit(column, a's value, b's value) for every column that a or b has, in rising order.
/// If only one of them has the column, the other's value is 0.
template <class Visit>
void for_each_column(const SparseWeights& a, const SparseWeights& b, Visit visit) {
    uint64_t i = 0;
    uint64_t j = 0;
    while (i < a.size() || j < b.size()) {
        const bool has_a = i < a.size() && (j == b.size() || a.columns[i] <= b.columns[j]);
        const bool has_b = j < b.size() && (i == a.size() || b.columns[j] <= a.columns[i]);
        const uint32_t column = has_a ? a.columns[i] : b.columns[j];
        visit(column, has_a ? a.values[i] : 0.0, has_b ? b.values[j] : 0.0);
        i += has_a ? 1 : 0;
        j += has_b ? 1 : 0;
    }
}

/// a + factor * b
[[nodiscard]] SparseWeights add_scaled(const SparseWeights& a, double factor,
                                       const SparseWeights& b);

}  // namespace weir::apps

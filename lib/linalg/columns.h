// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Columns: a sparse matrix of examples by columns, and what a solver by blocks of columns needs of it.

#include <cstdint>
#include <span>

#include "lib/linalg/sparse.h"

namespace weir::linalg {

/// A matrix by columns: the lines are its columns, their places its rows, rising. There may be more than 2^31
/// non-zeros.
using Columns = SparseLines<float, uint32_t, uint64_t>;

/// The columns from begin up to, but not including, end.
struct ColumnRange {
    uint64_t begin = 0;
    uint64_t end = 0;

    [[nodiscard]] uint64_t size() const noexcept { return end - begin; }
};

/// The contribution of a row to the gradient and curvature of every column in which it has a
/// non-zero.
struct RowTerm {
    double slope = 0;  ///< d loss / d margin
    /// First the reach: how far the margin may move in a step of the block, sum |x| * trust.
    /// Later the bend: reach times an upper bound of the loss's second derivative within reach.
    double reach_or_bend = 0;
};

/// terms[i].reach_or_bend += |x_ij| * trust[j - range.begin] for every non-zero of the range.
void add_reach(const Columns& matrix, ColumnRange range, std::span<const float> trust,
               std::span<RowTerm> terms);

/// reach[i] += factor * |x_ij| * trust[j - range.begin] for every non-zero of the range.
void add_reach(const Columns& matrix, ColumnRange range, std::span<const float> trust,
               double factor, std::span<double> reach);

/// Per column of the range: pairs[2 k] = g_j, the gradient, and pairs[2 k + 1] = u_j, a curvature
/// such that loss(w + d) <= loss(w) + g.d + sum_j u_j d_j^2 / 2 for every step d of the block
/// with |d_j| <= trust_j. `terms` are those after linalg::logistic_terms().
///
/// The bound follows from Cauchy and Schwarz:
///     (sum_k x_ik d_k)^2 <= (sum_k |x_ik| trust_k) (sum_k |x_ik| d_k^2 / trust_k)
/// It does not depend on the scale of the columns. Features whose weights no longer change have a
/// small trust and hardly shorten the steps of the others.
void gradient_and_curvature(const Columns& matrix, ColumnRange range, std::span<const float> trust,
                            std::span<const RowTerm> terms, std::span<double> pairs);

/// gradient[k] = sum of slopes[i] * x_ij for column j = range.begin + k.
void gradient(const Columns& matrix, ColumnRange range, std::span<const double> slopes,
              std::span<double> gradient);

/// margins[i] += x_ij * deltas[k] for column j = range.begin + k.
void add_to_margins(const Columns& matrix, ColumnRange range, std::span<const double> deltas,
                    std::span<double> margins);

}  // namespace weir::linalg

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// L1Quadratic: a quadratic model with an l1 penalty, and its minimiser.

#include <span>
#include <vector>

namespace weir::linalg {

/// gradient.d + d'Hd / 2 + l1 |weights + d|_1 as a function of d.
struct L1Quadratic {
    std::span<const double> curvature;  ///< H, positive semidefinite: its upper triangle, by rows
    std::span<const double> gradient;
    std::span<const double> weights;
    double l1 = 0;
};

/// The d that minimises it, up to `tolerance` in value; where weight + d is 0, exactly -weight. Of
/// some hundred variables at most: it costs some tens of Cholesky factorizations.
///
/// An interior point does not mind what stops steps in single variables: columns that are nearly
/// the same, as those are that all have one large constant in common.
/// Source: Mehrotra, On the implementation of a primal-dual interior point method, 1992, for
///     w = p - q with p, q >= 0.
[[nodiscard]] std::vector<double> minimise(const L1Quadratic& model, double tolerance);

}  // namespace weir::linalg

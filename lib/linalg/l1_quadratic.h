// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// L1Quadratic: a quadratic model with an l1 penalty, and its minimiser.

#include <span>
#include <vector>

namespace weir::linalg {

/// The function gradient.d + d'Hd / 2 + l1 |weights + d|_1 of d.
struct L1Quadratic {
    std::span<const double> curvature;  ///< H, positive semidefinite: its upper triangle, by rows
    std::span<const double> gradient;
    std::span<const double> weights;
    double l1 = 0;
};

/// Returns the d that minimises the model, up to `tolerance` in value. Where the new weight is 0,
/// d is exactly -weight. It costs some tens of Cholesky factorizations, so it is meant for up to
/// about a thousand variables.
///
/// It is an interior point method, which converges as fast for columns that are nearly the same
/// (those with a large constant in common, for example). Coordinate descent hardly moves there.
/// Source: Mehrotra, On the implementation of a primal-dual interior point method, 1992, for
///     w = p - q with p, q >= 0.
[[nodiscard]] std::vector<double> minimise(const L1Quadratic& model, double tolerance);

}  // namespace weir::linalg

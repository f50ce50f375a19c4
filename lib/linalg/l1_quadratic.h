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

/// The d that minimises it, up to `tolerance` in value. Where weight + d is 0, d is exactly
/// -weight. It costs some tens of Cholesky factorizations, so it is meant for up to some hundred
/// variables.
///
/// An interior point method, because it converges as fast for columns that are nearly the same
/// (those that have one large constant in common, say), where coordinate descent hardly moves.
/// Source: Mehrotra, On the implementation of a primal-dual interior point method, 1992, for
///     w = p - q with p, q >= 0.
[[nodiscard]] std::vector<double> minimise(const L1Quadratic& model, double tolerance);

}  // namespace weir::linalg

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The proximal step of sparse logistic regression for one weight: what the servers' update rule
/// `prox_l1` does to a key once all workers' pushes of an iteration are summed.

#include <algorithm>
#include <cmath>

namespace weir::linalg {

/// The trust radius of a key that was never touched.
inline constexpr double kFirstTrust = 1.0;
/// Trust never falls below this, so that a key at rest can always start again.
inline constexpr double kLeastTrust = 1e-9;

/// A weight and the bound on its next step; the pair is the state of one key.
struct ProxState {
    double weight = 0;
    double trust = kFirstTrust;
};

/// One step of  min_w  gradient * (w - weight) + curvature / 2 * (w - weight)^2 + l1 * |w|.
///
/// curvature >= 0: soft threshold, then the step is cut to +-trust; trust becomes
///     max(4 * |step|, trust / 2, 1e-9), where step is the difference of the *stored* weights, so
///     that a worker that sees both weights computes the same trust as the server.
/// curvature < 0: a move. The weight changes by -gradient / curvature, without threshold or cut,
/// and
///     trust stays. (Workers use it to move along a line over all weights at once.)
/// Source: Li et al., OSDI 2014, algorithm 3; the trust region is that of Genkin, Lewis, Madigan,
///     Large-scale Bayesian logistic regression, 2007.
[[nodiscard]] inline ProxState prox_l1_step(ProxState old, double gradient, double curvature,
                                            double l1) noexcept {
    if (curvature < 0) return {old.weight - gradient / curvature, old.trust};
    const double u = std::max(curvature, 1e-200);  // a flat direction: as far as trust allows
    double step = -old.weight;
    if (gradient + l1 <= u * old.weight) {
        step = -(gradient + l1) / u;
    } else if (gradient - l1 >= u * old.weight) {
        step = -(gradient - l1) / u;
    }
    step = std::clamp(step, -old.trust, old.trust);
    const double weight = old.weight + step;
    return {weight, std::max({4 * std::abs(weight - old.weight), old.trust / 2, kLeastTrust})};
}

}  // namespace weir::linalg

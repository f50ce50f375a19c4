// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The proximal step of sparse logistic regression for one weight. The servers' update rule
/// `prox_l1` takes it for every key once all workers' pushes of an iteration are summed; workers
/// call the same function to compute the weights that the servers will have.

#include <algorithm>
#include <cmath>
#include <limits>

namespace weir {

/// The trust radius of a key that was never touched.
inline constexpr double kFirstTrust = 1.0;
/// Trust never falls below this, so that a key at rest can always start again.
inline constexpr double kLeastTrust = 1e-9;

/// A weight and the bound on its next step; the pair is the state of one key.
template <class T>
struct ProxState {
    T weight = 0;
    T trust = static_cast<T>(kFirstTrust);
};

/// The trust after a step.
template <class T>
[[nodiscard, gnu::always_inline]] inline T trust_after(T trust, T step) noexcept {
    const T half = trust / 2;
    const T least = static_cast<T>(kLeastTrust);
    const T rest = half > least ? half : least;
    const T far = 4 * std::abs(step);
    return far > rest ? far : rest;
}

/// The same in float32, and rounded up: for who bounds the next step of a server, which has it in full.
[[nodiscard]] inline float trust_bound_after(float trust, double step) noexcept {
    const double next = trust_after<double>(trust, step);
    const auto rounded = static_cast<float>(next);
    return static_cast<double>(rounded) < next
               ? std::nextafter(rounded, std::numeric_limits<float>::infinity())
               : rounded;
}

/// The weight 0 of a key that does not rest has the sign that no step gives. So workers learn from a
/// pulled weight, without another byte, what only the servers know: the gradient of all workers. Keys at
/// rest, which are most of them, have no bit at all, and travel as nothing (zeros.h).
template <class T>
inline constexpr T kAwakeZero = -T(0);

/// Whether a key rests, as its weight says. One that was never pushed does.
template <class T>
[[nodiscard, gnu::always_inline]] inline bool is_at_rest(T weight) noexcept {
    return weight == 0 && !std::signbit(weight);
}

/// One step of  min_w  gradient * (w - weight) + curvature / 2 * (w - weight)^2 + l1 * |w|.
///
/// rest: a key whose weight was and stays 0 while |gradient| < rest is at rest; every other weight that
///     is 0 then becomes kAwakeZero. For the KKT filter, with l1 less a margin; 0: no zero has a sign.
/// curvature >= 0: the soft threshold gives the step, which is then cut to +-trust. Trust becomes
///     max(4 * |step|, trust / 2, 1e-9). The step is the difference of the *stored* weights, so
///     that a worker that sees both weights computes the same trust as the server. A curvature
///     of 0 goes as far as trust allows.
/// curvature < 0: a move. The weight changes by -gradient / curvature, without threshold or cut,
///     and trust stays; a 0 becomes kAwakeZero. (Workers move along a line over all weights at once
///     with it.)
///
/// Without branches, so that loops over it become vector code.
/// Source: Li et al., OSDI 2014, algorithm 3; the trust region is that of Genkin, Lewis, Madigan,
///     Large-scale Bayesian logistic regression, 2007.
template <class T>
[[nodiscard, gnu::always_inline]] inline ProxState<T> prox_l1_step(ProxState<T> old, T gradient,
                                                                   T curvature, T l1,
                                                                   T rest = 0) noexcept {
    // What counts as flat: 1e-200, or the smallest normal number where that is larger.
    constexpr T kFlat = static_cast<T>(
        std::max<double>(1e-200, static_cast<double>(std::numeric_limits<T>::min())));
    const T w = old.weight + T(0);  // -0 + 0 = 0
    const T trust = old.trust;
    const T u = curvature > kFlat ? curvature : kFlat;
    const T right = gradient + l1;  // the slope at w where the new weight is above 0
    const T left = gradient - l1;   // the slope at w where the new weight is below 0
    const T at_zero = u * w;
    const T slope = right <= at_zero ? right : left;
    const T newton = -slope / u;
    T step = right <= at_zero || left >= at_zero ? newton : -w;
    step = step < -trust ? -trust : step;
    step = step > trust ? trust : step;
    const T next = w + step;
    const bool move = curvature < 0;
    const bool rests = !move && (rest <= 0 || (std::abs(gradient) < rest && w == 0));
    const T reached = move ? w - gradient / curvature : next;
    return {reached == 0 && !rests ? kAwakeZero<T> : reached + T(0),
            move ? trust : trust_after(trust, next - w)};
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The rules that Weir brings: assign, add, max, min, sgd, adagrad, prox_l1.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "lib/store/rule.h"

namespace weir::rules {

/// What most rules have in common.
struct Plain {
    static constexpr uint32_t kStateValues = 0;
    static constexpr uint32_t kPushedValues = 1;
    static constexpr Combine kCombine = Combine::kSum;
    template <class T>
    static constexpr bool kSupports = true;

    static const char* check(const RuleParameters&) { return nullptr; }

    static double initial_state(const RuleParameters&) { return 0; }
};

/// The value becomes what was pushed; of several workers the last.
struct Assign : Plain {
    static constexpr Combine kCombine = Combine::kLast;

    template <class T>
    static void update(T& value, T*, const T* pushed, const RuleParameters&) {
        value = *pushed;
    }
};

/// a + b; integers wrap around.
template <class T>
constexpr T add(T a, T b) {
    if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
        using Unsigned = std::make_unsigned_t<T>;
        return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    } else {
        return a + b;
    }
}

struct Add : Plain {
    template <class T>
    static void update(T& value, T*, const T* pushed, const RuleParameters&) {
        value = add(value, *pushed);
    }
};

struct Max : Plain {
    static constexpr Combine kCombine = Combine::kMax;

    template <class T>
    static void update(T& value, T*, const T* pushed, const RuleParameters&) {
        const T other = *pushed;
        value = other > value ? other : value;
    }
};

struct Min : Plain {
    static constexpr Combine kCombine = Combine::kMin;

    template <class T>
    static void update(T& value, T*, const T* pushed, const RuleParameters&) {
        const T other = *pushed;
        value = other < value ? other : value;
    }
};

/// value -= rate * gradient. Parameters: rate.
struct Sgd : Plain {
    template <class T>
    static constexpr bool kSupports = std::is_floating_point_v<T>;

    static const char* check(const RuleParameters& p) {
        return std::isfinite(p.value[0]) ? nullptr : "parameter 0 (rate) must be finite";
    }

    template <class T>
    static void update(T& value, T*, const T* pushed, const RuleParameters& p) {
        value -= static_cast<T>(p.value[0]) * *pushed;
    }
};

/// state += gradient^2; value -= rate * gradient / (sqrt(state) + epsilon). Parameters: rate,
/// epsilon. Source: Duchi, Hazan, Singer, JMLR 2011 (diagonal form)
struct Adagrad : Plain {
    static constexpr uint32_t kStateValues = 1;
    template <class T>
    static constexpr bool kSupports = std::is_floating_point_v<T>;

    static const char* check(const RuleParameters& p) {
        if (!std::isfinite(p.value[0])) return "parameter 0 (rate) must be finite";
        if (!std::isfinite(p.value[1]) || p.value[1] <= 0)
            return "parameter 1 (epsilon) must be finite and above 0";
        return nullptr;
    }

    template <class T>
    static void update(T& value, T* state, const T* pushed, const RuleParameters& p) {
        const T gradient = *pushed;
        const T sum = *state + gradient * gradient;
        *state = sum;
        value -=
            static_cast<T>(p.value[0]) * gradient / (std::sqrt(sum) + static_cast<T>(p.value[1]));
    }
};

/// One step of proximal Newton per value, inside a trust region that is the rule's state:
/// d = argmin g d + u/2 d^2 + lambda |w + d|, cut to [-trust, trust]; w += d, and with the step
/// that w really took, trust = max(4 |d|, trust / 2, 1e-9). u = 0 goes as far as the region allows.
/// u < 0 is a move: w -= g / u, without threshold or cut, and trust stays.
/// Pushed per value: gradient g, curvature u. Parameters: lambda, initial trust.
/// The arithmetic is that of lib/linalg/prox.h, so that a worker can follow what the server does.
/// Source: Li et al., OSDI 2014, algorithm 3; Genkin, Lewis, Madigan, 2007
struct ProxL1 : Plain {
    static constexpr uint32_t kStateValues = 1;
    static constexpr uint32_t kPushedValues = 2;
    template <class T>
    static constexpr bool kSupports = std::is_floating_point_v<T>;

    static const char* check(const RuleParameters& p) {
        if (!std::isfinite(p.value[0]) || p.value[0] < 0)
            return "parameter 0 (lambda) must be finite and not negative";
        if (!std::isfinite(p.value[1]) || p.value[1] <= 0)
            return "parameter 1 (initial trust) must be finite and above 0";
        return nullptr;
    }

    static double initial_state(const RuleParameters& p) { return p.value[1]; }

    template <class T>
    static void update(T& value, T* state, const T* pushed, const RuleParameters& p) {
        // What counts as flat: 1e-200, or the smallest normal number where that is larger.
        constexpr T kFlat = static_cast<T>(
            std::max<double>(1e-200, static_cast<double>(std::numeric_limits<T>::min())));
        const T lambda = static_cast<T>(p.value[0]);
        const T w = value;
        const T g = pushed[0];
        const T curvature = pushed[1];
        const T trust = *state;
        const bool move = curvature < 0;
        const T u = curvature > kFlat ? curvature : kFlat;
        const T right = g + lambda;  // the slope at w where w + d > 0
        const T left = g - lambda;   // the slope at w where w + d < 0
        const T at_zero = u * w;
        const T slope = right <= at_zero ? right : left;
        const T newton = -slope / u;
        T step = right <= at_zero || left >= at_zero ? newton : -w;
        step = step < -trust ? -trust : step;
        step = step > trust ? trust : step;
        const T next = w + step;
        const T taken = std::abs(next - w);
        T grown = trust / 2 > static_cast<T>(1e-9) ? trust / 2 : static_cast<T>(1e-9);
        grown = 4 * taken > grown ? 4 * taken : grown;
        value = move ? w - g / curvature : next;
        *state = move ? trust : grown;
    }
};

}  // namespace weir::rules

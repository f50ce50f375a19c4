// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The rules that Weir brings. lib/store/rules/rules.h says what they do.

#include <array>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "lib/base/prox.h"
#include "lib/store/rules/rule.h"

namespace weir::rules {

/// What most rules have in common.
struct Plain {
    static constexpr uint32_t kStateValues = 0;
    static constexpr uint32_t kPushedValues = 1;
    static constexpr Combine kCombine = Combine::kSum;
    template <class T>
    static constexpr bool kSupports = true;

    static constexpr std::array<RuleParameter, 0> kParameters = {};

    static const char* check(const RuleParameters&) { return nullptr; }

    static double initial_state(const RuleParameters&) { return 0; }
};

/// The value becomes what was pushed; of several workers' pushes, the last one.
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

    static constexpr std::array kParameters = {RuleParameter{.name = "rate"}};

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

    static constexpr std::array kParameters = {RuleParameter{.name = "rate"},
                                               RuleParameter{.name = "epsilon"}};

    template <class T>
    static void update(T& value, T* state, const T* pushed, const RuleParameters& p) {
        const T gradient = *pushed;
        const T sum = *state + gradient * gradient;
        *state = sum;
        value -=
            static_cast<T>(p.value[0]) * gradient / (std::sqrt(sum) + static_cast<T>(p.value[1]));
    }
};

/// One step of proximal Newton per value, inside a trust region, which is the rule's state: see
/// prox_l1_step(). Pushed per value: gradient, curvature. Parameters: lambda, first trust.
struct ProxL1 : Plain {
    static constexpr uint32_t kStateValues = 1;
    static constexpr uint32_t kPushedValues = 2;
    template <class T>
    static constexpr bool kSupports = std::is_floating_point_v<T>;

    static constexpr std::array kParameters = {RuleParameter{.name = "lambda", .may_be_zero = true},
                                               RuleParameter{.name = "first_trust"}};

    static double initial_state(const RuleParameters& p) { return p.value[1]; }

    template <class T>
    static void update(T& value, T* state, const T* pushed, const RuleParameters& p) {
        const T lambda = static_cast<T>(p.value[0]);
        const ProxState<T> next = prox_l1_step<T>({value, *state}, pushed[0], pushed[1], lambda);
        value = next.weight;
        *state = next.trust;
    }
};

}  // namespace weir::rules

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The rules that Weir brings. lib/store/rules/rules.h says what they do.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
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
    static void update(T& value, T*, const T* pushed, const RuleContext&) {
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

/// The value becomes what was pushed; of several workers' pushes, their sum.
struct Sum : Assign {
    static constexpr Combine kCombine = Combine::kSum;
};

/// The value becomes what was pushed; of several workers' pushes, their mean.
struct Mean : Assign {
    static constexpr Combine kCombine = Combine::kMean;
    template <class T>
    static constexpr bool kSupports = std::is_floating_point_v<T>;
};

struct Add : Plain {
    static constexpr Rounding kRounding = Rounding::kStochastic;

    template <class T>
    static void update(T& value, T*, const T* pushed, const RuleContext&) {
        value = add(value, *pushed);
    }
};

struct Max : Plain {
    static constexpr Combine kCombine = Combine::kMax;

    template <class T>
    static void update(T& value, T*, const T* pushed, const RuleContext&) {
        const T other = *pushed;
        value = other > value ? other : value;
    }
};

struct Min : Plain {
    static constexpr Combine kCombine = Combine::kMin;

    template <class T>
    static void update(T& value, T*, const T* pushed, const RuleContext&) {
        const T other = *pushed;
        value = other < value ? other : value;
    }
};

/// A rule for gradients.
struct Descent : Plain {
    static constexpr Rounding kRounding = Rounding::kStochastic;
    template <class T>
    static constexpr bool kSupports = std::is_floating_point_v<T>;

    static constexpr std::array kArguments = {RuleArgument{.name = "rate"}};
};

/// Of weight decay that is a part of the gradient.
[[nodiscard]] inline double decay_penalty(double weight_decay, double value) noexcept {
    return weight_decay / 2 * value * value;
}

/// value -= rate * (gradient + weight_decay * value). Parameters: rate, weight_decay. Arguments: both.
struct Sgd : Descent {
    static constexpr std::array kParameters = {
        RuleParameter{.name = "rate"}, RuleParameter{.name = "weight_decay", .may_be_zero = true}};
    static constexpr std::array kArguments = {RuleArgument{.name = "rate"},
                                              RuleArgument{.name = "weight_decay"}};

    static double penalty(double value, const RuleParameters& p) {
        return decay_penalty(p.value[1], value);
    }

    template <class T>
    static void update(T& value, T*, const T* pushed, const RuleContext& c) {
        const T old = value;
        const T gradient = *pushed + static_cast<T>(c.arguments.value[1]) * old;
        value = old - static_cast<T>(c.arguments.value[0]) * gradient;
    }
};

/// Gradient descent with momentum: state = momentum * state + gradient, where weight decay is part of
/// the gradient; value -= rate * state. Nesterov: value -= rate * (gradient + momentum * state).
/// Parameters: rate, momentum, weight_decay. Arguments: all.
/// Source: Sutskever, Martens, Dahl, Hinton, ICML 2013, as PyTorch has it
template <bool kIsNesterov>
struct MomentumSgd : Descent {
    static constexpr uint32_t kStateValues = 1;
    static constexpr std::array kParameters = {
        RuleParameter{.name = "rate"},
        RuleParameter{.name = "momentum", .may_be_zero = true, .below_one = true},
        RuleParameter{.name = "weight_decay", .may_be_zero = true}};
    static constexpr std::array kArguments = {RuleArgument{.name = "rate"},
                                              RuleArgument{.name = "momentum"},
                                              RuleArgument{.name = "weight_decay"}};

    static double penalty(double value, const RuleParameters& p) {
        return decay_penalty(p.value[2], value);
    }

    template <class T>
    static void update(T& value, T* state, const T* pushed, const RuleContext& c) {
        const T rate = static_cast<T>(c.arguments.value[0]);
        const T momentum = static_cast<T>(c.arguments.value[1]);
        const T old = value;
        const T gradient = *pushed + static_cast<T>(c.arguments.value[2]) * old;
        const T velocity = momentum * *state + gradient;
        *state = velocity;
        value = old - rate * (kIsNesterov ? gradient + momentum * velocity : velocity);
    }
};

/// state += gradient^2; value -= rate * gradient / (sqrt(state) + epsilon). Parameters: rate,
/// epsilon. Arguments: rate. Source: Duchi, Hazan, Singer, JMLR 2011 (diagonal form)
struct Adagrad : Descent {
    static constexpr uint32_t kStateValues = 1;
    static constexpr std::array kParameters = {RuleParameter{.name = "rate"},
                                               RuleParameter{.name = "epsilon"}};

    template <class T>
    static void update(T& value, T* state, const T* pushed, const RuleContext& c) {
        const T gradient = *pushed;
        const T sum = *state + gradient * gradient;
        *state = sum;
        value -= static_cast<T>(c.arguments.value[0]) * gradient /
                 (std::sqrt(sum) + static_cast<T>(c.parameters.value[1]));
    }
};

/// state = decay * state + (1 - decay) * gradient^2; value -= rate * gradient / (sqrt(state) +
/// epsilon). Parameters: rate, decay, epsilon. Arguments: rate.
/// Source: Hinton, Neural networks for machine learning, lecture 6
struct RmsProp : Descent {
    static constexpr uint32_t kStateValues = 1;
    static constexpr std::array kParameters = {
        RuleParameter{.name = "rate"},
        RuleParameter{.name = "decay", .may_be_zero = true, .below_one = true},
        RuleParameter{.name = "epsilon"}};

    template <class T>
    static void update(T& value, T* state, const T* pushed, const RuleContext& c) {
        const T decay = static_cast<T>(c.parameters.value[1]);
        const T rest = static_cast<T>(1 - c.parameters.value[1]);
        const T gradient = *pushed;
        const T mean = decay * *state + rest * gradient * gradient;
        *state = mean;
        value -= static_cast<T>(c.arguments.value[0]) * gradient /
                 (std::sqrt(mean) + static_cast<T>(c.parameters.value[2]));
    }
};

/// value -= rate * (sign(beta1 * state + (1 - beta1) * gradient) + weight_decay * value); then state =
/// beta2 * state + (1 - beta2) * gradient. Parameters: rate, beta1, beta2, weight_decay. Arguments:
/// rate, weight_decay. Source: Chen et al., Symbolic discovery of optimization algorithms, 2023
struct Lion : Descent {
    static constexpr uint32_t kStateValues = 1;
    static constexpr std::array kParameters = {
        RuleParameter{.name = "rate"},
        RuleParameter{.name = "beta1", .may_be_zero = true, .below_one = true},
        RuleParameter{.name = "beta2", .may_be_zero = true, .below_one = true},
        RuleParameter{.name = "weight_decay", .may_be_zero = true}};
    static constexpr std::array kArguments = {RuleArgument{.name = "rate"},
                                              RuleArgument{.name = "weight_decay"}};

    template <class T>
    static void update(T& value, T* state, const T* pushed, const RuleContext& c) {
        const T beta1 = static_cast<T>(c.parameters.value[1]);
        const T beta2 = static_cast<T>(c.parameters.value[2]);
        const T gradient = *pushed;
        const T old = value;
        const T mixed = beta1 * *state + static_cast<T>(1 - c.parameters.value[1]) * gradient;
        *state = beta2 * *state + static_cast<T>(1 - c.parameters.value[2]) * gradient;
        const T sign = static_cast<T>(mixed > 0) - static_cast<T>(mixed < 0);
        value = old - static_cast<T>(c.arguments.value[0]) *
                          (sign + static_cast<T>(c.arguments.value[1]) * old);
    }
};

/// FTRL-proximal: with n the sum of gradient^2, state z += gradient - (sqrt(n + gradient^2) - sqrt(n)) /
/// rate * value; value = 0 if |z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(n)) / rate + l2).
/// State: z, n. Parameters: rate (alpha), beta, l1, l2. Arguments: none: z holds the rates of before.
/// Source: McMahan et al., KDD 2013, algorithm 1
struct Ftrl : Descent {
    static constexpr uint32_t kStateValues = 2;
    static constexpr bool kBeginsAtZero = true;
    static constexpr Rounding kRounding = Rounding::kNearest;  // the values are made anew each time
    static constexpr std::array kParameters = {RuleParameter{.name = "rate"},
                                               RuleParameter{.name = "beta", .may_be_zero = true},
                                               RuleParameter{.name = "l1", .may_be_zero = true},
                                               RuleParameter{.name = "l2", .may_be_zero = true}};
    static constexpr std::array<RuleArgument, 0> kArguments = {};

    static double penalty(double value, const RuleParameters& p) {
        return p.value[2] * std::abs(value) + decay_penalty(p.value[3], value);
    }

    template <class T>
    static void update(T& value, T* state, const T* pushed, const RuleContext& c) {
        const T per_rate = static_cast<T>(
            std::min<double>(1 / c.parameters.value[0], std::numeric_limits<T>::max()));
        const T beta = static_cast<T>(c.parameters.value[1]);
        const T l1 = static_cast<T>(c.parameters.value[2]);
        const T l2 = static_cast<T>(c.parameters.value[3]);
        const T gradient = *pushed;
        const T sum = state[1] + gradient * gradient;
        const T root = std::sqrt(sum);
        const T z = state[0] + gradient - (root - std::sqrt(state[1])) * per_rate * value;
        state[0] = z;
        state[1] = sum;
        const T beyond = std::abs(z) - l1;
        const T step = std::copysign(beyond, z) / ((beta + root) * per_rate + l2);
        value = beyond > 0 ? -step : T(0);
    }
};

/// One step of proximal Newton per value, inside a trust region, which is the rule's state: see
/// prox_l1_step(). Pushed per value: gradient, curvature. Parameters: lambda, first trust. Arguments: rest.
struct ProxL1 : Plain {
    static constexpr uint32_t kStateValues = 1;
    static constexpr uint32_t kPushedValues = 2;
    static constexpr Rounding kRounding = Rounding::kStochastic;
    template <class T>
    static constexpr bool kSupports = std::is_floating_point_v<T>;

    static constexpr std::array kParameters = {RuleParameter{.name = "lambda", .may_be_zero = true},
                                               RuleParameter{.name = "first_trust"}};
    static constexpr std::array kArguments = {RuleArgument{.name = "rest"}};

    static double initial_state(const RuleParameters& p) { return p.value[1]; }

    static double penalty(double value, const RuleParameters& p) {
        return p.value[0] * std::abs(value);
    }

    template <class T>
    static void update(T& value, T* state, const T* pushed, const RuleContext& c) {
        const T lambda = static_cast<T>(c.parameters.value[0]);
        const T rest = static_cast<T>(c.arguments.value[0]);
        const ProxState<T> next =
            prox_l1_step<T>({value, *state}, pushed[0], pushed[1], lambda, rest);
        value = next.weight;
        *state = next.trust;
    }
};

}  // namespace weir::rules

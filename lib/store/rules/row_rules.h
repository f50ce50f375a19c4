// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The rules by row that Weir brings. lib/store/rules/rules.h says what they do.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "lib/store/rules/builtin_rules.h"
#include "lib/store/rules/rule.h"

namespace weir::rules {

/// What rules by row for gradients have in common.
struct RowDescent {
    static constexpr uint32_t kPushedValues = 1;
    static constexpr Combine kCombine = Combine::kSum;
    template <class T>
    static constexpr bool kSupports = std::is_floating_point_v<T>;

    static constexpr std::array kArguments = {RuleArgument{.name = "rate"}};

    static const char* check(const RuleParameters&, uint32_t) { return nullptr; }
};

/// base^exponent, by squaring: the same operations on every processor.
[[nodiscard]] inline double power(double base, uint32_t exponent) noexcept {
    double result = 1;
    for (; exponent != 0; exponent >>= 1, base *= base)
        result *= (exponent & 1) != 0 ? base : 1;
    return result;
}

/// With m = beta1 * m + (1 - beta1) * gradient, v = beta2 * v + (1 - beta2) * gradient^2, and t the
/// number of times that the row was updated: value -= rate * m / (1 - beta1^t) / (sqrt(v / (1 -
/// beta2^t)) + epsilon). Weight decay is part of the gradient; decoupled (AdamW): value -= rate *
/// weight_decay * value before. So a row that is seen rarely has moments of its own time.
/// State of a row: all m, all v, t (32 bits). Parameters: rate, beta1, beta2, epsilon, weight_decay.
/// Arguments: rate, weight_decay.
/// Source: Kingma, Ba, ICLR 2015; Loshchilov, Hutter, ICLR 2019
template <bool kIsDecoupled>
struct Adam : RowDescent {
    static constexpr std::array kParameters = {
        RuleParameter{.name = "rate"},
        RuleParameter{.name = "beta1", .may_be_zero = true, .below_one = true},
        RuleParameter{.name = "beta2", .may_be_zero = true, .below_one = true},
        RuleParameter{.name = "epsilon"},
        RuleParameter{.name = "weight_decay", .may_be_zero = true}};
    static constexpr std::array kArguments = {RuleArgument{.name = "rate"},
                                              RuleArgument{.name = "weight_decay"}};

    template <class T>
    static constexpr size_t state_bytes(size_t width) {
        return 2 * width * sizeof(T) + sizeof(uint32_t);
    }

    template <class T>
    static void update_row(const RuleRow<T>& row, const RuleContext& c) {
        const double beta1 = c.parameters.value[1];
        const double beta2 = c.parameters.value[2];
        const size_t width = row.width;
        auto* const steps = row.template state_at<uint32_t>(2 * width);
        const uint32_t step = *steps + static_cast<uint32_t>(*steps != ~uint32_t{0});
        *steps = step;
        const double rate = c.arguments.value[0];
        const T decay = static_cast<T>(c.arguments.value[1]);
        const T keep = static_cast<T>(1 - rate * c.arguments.value[1]);
        const T scale = static_cast<T>(rate / (1 - power(beta1, step)));
        const T root = static_cast<T>(1 / std::sqrt(1 - power(beta2, step)));
        const T epsilon = static_cast<T>(c.parameters.value[3]);
        const T b1 = static_cast<T>(beta1);
        const T b2 = static_cast<T>(beta2);
        const T r1 = static_cast<T>(1 - beta1);
        const T r2 = static_cast<T>(1 - beta2);
        T* __restrict w = row.values;
        T* __restrict m = row.state_at(0);
        T* __restrict v = row.state_at(width);
        const T* __restrict g = row.pushed;
        for (size_t i = 0; i < width; ++i) {
            const T old = w[i];
            const T gradient = kIsDecoupled ? g[i] : g[i] + decay * old;
            const T first = b1 * m[i] + r1 * gradient;
            const T second = b2 * v[i] + r2 * gradient * gradient;
            m[i] = first;
            v[i] = second;
            const T start = kIsDecoupled ? keep * old : old;
            w[i] = start - scale * first / (std::sqrt(second) * root + epsilon);
        }
    }
};

/// state += the mean of gradient^2 over the row; value -= rate * gradient / (sqrt(state) + epsilon).
/// State of a row: one value. Parameters: rate, epsilon. Arguments: rate.
struct RowAdagrad : RowDescent {
    static constexpr std::array kParameters = {RuleParameter{.name = "rate"},
                                               RuleParameter{.name = "epsilon"}};

    template <class T>
    static constexpr size_t state_bytes(size_t) {
        return sizeof(T);
    }

    template <class T>
    static void update_row(const RuleRow<T>& row, const RuleContext& c) {
        constexpr size_t kLanes = 16;  // sums side by side: one alone would not be vectorised
        const size_t width = row.width;
        T* __restrict w = row.values;
        const T* __restrict g = row.pushed;
        T lanes[kLanes] = {};
        size_t i = 0;
        for (; i + kLanes <= width; i += kLanes) {
            for (size_t lane = 0; lane < kLanes; ++lane)
                lanes[lane] += g[i + lane] * g[i + lane];
        }
        T squares = 0;
        for (; i < width; ++i)
            squares += g[i] * g[i];
        for (const T lane : lanes)
            squares += lane;
        T& state = *row.state_at(0);
        state += squares / static_cast<T>(width);
        const T step = static_cast<T>(c.arguments.value[0]) /
                       (std::sqrt(state) + static_cast<T>(c.parameters.value[1]));
        for (size_t k = 0; k < width; ++k)
            w[k] -= step * g[k];
    }
};

/// A count-min sketch in each row: `depth` lines of width / depth counters. Who counts an item pushes
/// its count at one place of each line, and zeros elsewhere. The update is conservative: with b the
/// smallest, over the lines, of the greatest value + pushed of a line among places with a count, such a
/// place becomes max(value, min(value + pushed, b)). With one item in a push this is the usual rule: the
/// item's least counter grows by its count, and its others only as far as that one reaches. With more,
/// no item is counted less than it came. What is pushed below 0 does not count. Parameters: depth.
/// Source: Estan, Varghese, SIGCOMM 2002; Cormode, Muthukrishnan, 2005
struct CountMin {
    static constexpr uint32_t kPushedValues = 1;
    static constexpr Combine kCombine = Combine::kSum;
    template <class T>
    static constexpr bool kSupports = true;

    static constexpr std::array kParameters = {RuleParameter{.name = "depth"}};

    static const char* check(const RuleParameters& p, uint32_t width) {
        const bool divides = p.value[0] <= width && p.value[0] == std::floor(p.value[0]) &&
                             width % static_cast<uint32_t>(p.value[0]) == 0;
        return divides ? nullptr : "depth must be a whole number that divides the width";
    }

    template <class T>
    static constexpr size_t state_bytes(size_t) {
        return 0;
    }

    template <class T>
    static void update_row(const RuleRow<T>& row, const RuleContext& c) {
        constexpr T kLeast = std::numeric_limits<T>::lowest();
        const auto depth = static_cast<size_t>(c.parameters.value[0]);
        const size_t columns = row.width / depth;
        T* __restrict w = row.values;
        const T* __restrict g = row.pushed;
        T bound = std::numeric_limits<T>::max();
        for (size_t line = 0; line < depth; ++line) {
            T greatest = kLeast;
            for (size_t i = line * columns; i < (line + 1) * columns; ++i) {
                const T reached = g[i] > 0 ? add(w[i], g[i]) : kLeast;
                greatest = reached > greatest ? reached : greatest;
            }
            bound = greatest != kLeast && greatest < bound ? greatest : bound;
        }
        for (size_t i = 0; i < row.width; ++i) {
            const T reached = add(w[i], g[i]);
            const T next = reached < bound ? reached : bound;
            w[i] = g[i] > 0 && next > w[i] ? next : w[i];
        }
    }
};

}  // namespace weir::rules

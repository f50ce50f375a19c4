// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The rules by row that Weir brings. lib/store/rules/rules.h says what they do.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "lib/store/rules/builtin_rules.h"
#include "lib/store/rules/rule.h"

namespace weir::rules {

/// What rules by row for gradients have in common.
struct RowDescent {
    static constexpr uint32_t kPushedValues = 1;
    static constexpr Rounding kRounding = Rounding::kStochastic;
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

    static double penalty(double value, const RuleParameters& p) requires(!kIsDecoupled) {
        return decay_penalty(p.value[4], value);
    }

    template <class T>
    static constexpr size_t state_bytes(size_t width) {
        return 2 * width * sizeof(T) + sizeof(uint32_t);
    }

    /// What makes up for moments that began as zeros.
    template <class T>
    struct Correction {
        T scale;
        T root;
    };

    template <class T>
    static void update_row(const RuleRow<T>& row, const RuleContext& c) {
        const size_t width = row.width;
        const Correction<T> all = correction<T>(next_step(row.state + 2 * width * sizeof(T)), c);
        update_values(row.values, row.state_at(0), row.state_at(width), row.pushed, width, c,
                      [&](size_t) { return all; });
    }

    /// Takes the moments of some rows together, so that their updates become vectors.
    template <class T>
    static void update_singles(T* values, std::byte* state, const T* pushed, size_t row_count,
                               const RuleContext& c) {
        constexpr size_t kTogether = 64;
        constexpr size_t kStride = (state_bytes<T>(1) + sizeof(T) - 1) / sizeof(T) * sizeof(T);
        T first[kTogether];
        T second[kTogether];
        Correction<T> corrections[kTogether];
        uint32_t step = 0;  // rows that are pushed together often have the same
        Correction<T> of_step{};
        for (size_t some = 0; row_count > 0; row_count -= some, values += some, pushed += some) {
            some = row_count < kTogether ? row_count : kTogether;
            for (size_t i = 0; i < some; ++i) {
                std::byte* const at = state + i * kStride;
                std::memcpy(&first[i], at, sizeof(T));
                std::memcpy(&second[i], at + sizeof(T), sizeof(T));
                const uint32_t next = next_step(at + 2 * sizeof(T));
                if (next != step) of_step = correction<T>(next, c);
                step = next;
                corrections[i] = of_step;
            }
            update_values(values, first, second, pushed, some, c,
                          [&](size_t i) { return corrections[i]; });
            for (size_t i = 0; i < some; ++i, state += kStride) {
                std::memcpy(state, &first[i], sizeof(T));
                std::memcpy(state + sizeof(T), &second[i], sizeof(T));
            }
        }
    }

private:
    /// Counts the step of a row whose count is there.
    static uint32_t next_step(std::byte* at) {
        uint32_t step = 0;
        std::memcpy(&step, at, sizeof(step));
        step += static_cast<uint32_t>(step != ~uint32_t{0});
        std::memcpy(at, &step, sizeof(step));
        return step;
    }

    template <class T>
    static Correction<T> correction(uint32_t step, const RuleContext& c) {
        return {static_cast<T>(c.arguments.value[0] / (1 - power(c.parameters.value[1], step))),
                static_cast<T>(1 / std::sqrt(1 - power(c.parameters.value[2], step)))};
    }

    template <class T, class CorrectionOf>
    static void update_values(T* __restrict w, T* __restrict m, T* __restrict v,
                              const T* __restrict g, size_t count, const RuleContext& c,
                              CorrectionOf correction_of) {
        const T b1 = static_cast<T>(c.parameters.value[1]);
        const T b2 = static_cast<T>(c.parameters.value[2]);
        const T r1 = static_cast<T>(1 - c.parameters.value[1]);
        const T r2 = static_cast<T>(1 - c.parameters.value[2]);
        const T epsilon = static_cast<T>(c.parameters.value[3]);
        const T decay = static_cast<T>(c.arguments.value[1]);
        const T keep = static_cast<T>(1 - c.arguments.value[0] * c.arguments.value[1]);
        for (size_t i = 0; i < count; ++i) {
            const auto [scale, root] = correction_of(i);
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
        // Beyond the greatest value, a gradient of 0 would become a NaN.
        const T step = std::min(static_cast<T>(c.arguments.value[0]) /
                                    (std::sqrt(state) + static_cast<T>(c.parameters.value[1])),
                                std::numeric_limits<T>::max());
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

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the servers do of L-BFGS, on the rows of its tables. With l1 > 0 it is OWL-QN: the gradient that counts is then
/// the pseudo-gradient, and a step stays in the orthant that it begins in.
///
/// A feature has c values in the tables of weights w, of gradients of the loss and of steps d, and 2m + 1 times c in
/// that of the history: the last gradient g of loss and l2/2 |w|^2, m differences of weights, m of gradients.
///
/// Source: Andrew, Gao: Scalable training of L1-regularized log-linear models, ICML 2007

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <type_traits>

#include "lib/apps/lbfgs/direction.h"
#include "lib/store/functions/function.h"
#include "lib/store/rules/rule_registry.h"

namespace weir::apps::lbfgs {

/// The derivative of loss + l1 |w| in the direction in which it falls, of that of the loss; 0 if it falls in none.
[[nodiscard]] inline double pseudo_gradient(double gradient, double weight, double l1) noexcept {
    if (weight > 0) return gradient + l1;
    if (weight < 0) return gradient - l1;
    if (gradient > l1) return gradient - l1;
    if (gradient < -l1) return gradient + l1;
    return 0;
}

/// What a step along `direction` adds to a weight. With l1 > 0 a direction that would raise the objective is none, and
/// the weight stops at 0 before its sign changes.
[[nodiscard]] inline double step_of(double weight, double direction, double pseudo, double l1,
                                    double length) noexcept {
    if (l1 == 0) return length * direction;
    if (direction * pseudo >= 0) return 0;
    const double sign = weight != 0 ? weight : -pseudo;
    const double step = length * direction;
    return (weight + step) * sign > 0 ? step : -weight;
}

/// Functions take doubles only.
template <class T>
inline constexpr bool kIsDouble = std::is_same_v<std::remove_const_t<T>, double>;

/// A client has called a function on other tables than these, or with other numbers.
inline void require(bool is_so) {
    if (!is_so) throw std::invalid_argument("tables or numbers that are not those of L-BFGS");
}

/// Basis vectors in rows of the history.
[[nodiscard]] inline size_t basis_in(uint32_t history_width, uint32_t width) {
    const size_t count = history_width / width;
    require(count * width == history_width && count % 2 == 1 && count > 1 &&
            count <= LbfgsDirection::basis_count(LbfgsDirection::kPairsMax));
    return count;
}

/// A place below `count`.
[[nodiscard]] inline size_t slot_of(double number, size_t count) {
    require(number >= 0 && number < static_cast<double>(count));
    return static_cast<size_t>(number);
}

/// Calls visit(place of a weight, its history, values between two basis vectors of that) for each weight. `history`:
/// the rows of the history.
template <class Visit>
void for_each_weight(size_t row_count, uint32_t width, const double* history,
                     uint32_t history_width, Visit visit) {
    for (size_t row = 0; row < row_count; ++row) {
        for (uint32_t k = 0; k < width; ++k)
            visit(row * width + k, history + row * history_width + k);
    }
}

/// Of the history; with gradients, weights and steps: keeps a new gradient, and the pair of the step before it.
struct Keep {
    static constexpr std::array kNumbers = {
        FunctionNumber{"slot"},    ///< of the pair; -1: there was no step
        FunctionNumber{"length"},  ///< s = length * step
        FunctionNumber{"l2"}};
    static constexpr uint32_t kTables = 3;
    static constexpr bool kAnyWidth = true;
    template <class T>
    static constexpr bool kSupports = kIsDouble<T>;

    template <class T>
    static void change(const FunctionRows<T>& rows) {
        const uint32_t width = rows.with_width[0];
        const size_t pairs = basis_in(rows.width, width) / 2;
        require(rows.with_width[1] == width && rows.with_width[2] == width);
        const bool has_pair = rows.numbers[0] != -1;
        const size_t slot = has_pair ? slot_of(rows.numbers[0], pairs) : 0;
        for (size_t row = 0; row < rows.row_count; ++row) {
            for (uint32_t k = 0; k < width; ++k) {
                double* const history = rows.values + row * rows.width + k;
                const size_t at = row * width + k;
                const double gradient = rows.with[0][at] + rows.numbers[2] * rows.with[1][at];
                if (has_pair) {
                    history[(1 + slot) * width] = rows.numbers[1] * rows.with[2][at];
                    history[(1 + pairs + slot) * width] = gradient - history[0];
                }
                history[0] = gradient;
            }
        }
    }
};

/// Of the history; with weights: the products of the (pseudo-)gradient and of the pair in a slot with all basis
/// vectors, of which the first is the (pseudo-)gradient. Then |w|^2, |w|_1, and how many features have a weight.
struct Products {
    static constexpr std::array kNumbers = {FunctionNumber{"slot"}, FunctionNumber{"l1"},
                                            FunctionNumber{"pairs"}};
    static constexpr uint32_t kTables = 1;
    static constexpr bool kAnyWidth = true;
    static constexpr double kCost = 4;
    template <class T>
    static constexpr bool kSupports = kIsDouble<T>;

    static const char* check(std::span<const double> numbers) {
        const bool is_good = numbers[2] >= 1 && numbers[2] <= LbfgsDirection::kPairsMax;
        return is_good ? nullptr : "so many pairs are in no history";
    }

    static void begin(std::span<const double> numbers, FunctionResult& result) {
        result.numbers.assign(
            3 * LbfgsDirection::basis_count(static_cast<uint32_t>(numbers[2])) + 3, 0);
    }

    template <class T>
    static void read(const FunctionRows<const T>& rows, FunctionResult& result) {
        const uint32_t width = rows.with_width[0];
        const size_t count = basis_in(rows.width, width);
        const size_t slot = slot_of(rows.numbers[0], count / 2);
        require(result.numbers.size() == 3 * count + 3);
        double* const sums = result.numbers.data();
        double* const of_weights = sums + 3 * count;
        std::array<double, LbfgsDirection::basis_count(LbfgsDirection::kPairsMax)> basis;
        for (size_t row = 0; row < rows.row_count; ++row) {
            bool has_weight = false;
            for (uint32_t k = 0; k < width; ++k) {
                const double weight = rows.with[0][row * width + k];
                const double* const history = rows.values + row * rows.width + k;
                for (size_t b = 0; b < count; ++b)
                    basis[b] = history[b * width];
                basis[0] = pseudo_gradient(basis[0], weight, rows.numbers[1]);
                const std::array<double, 3> fresh = {basis[0], basis[1 + slot],
                                                     basis[1 + count / 2 + slot]};
                for (size_t i = 0; i < fresh.size(); ++i) {
                    for (size_t b = 0; b < count; ++b)
                        sums[i * count + b] += fresh[i] * basis[b];
                }
                of_weights[0] += weight * weight;
                of_weights[1] += std::abs(weight);
                has_weight = has_weight || weight != 0;
            }
            of_weights[2] += has_weight ? 1 : 0;
        }
    }
};

/// Of steps; with the history and weights: they become `length` times the direction that has these factors.
struct Step {
    static constexpr uint32_t kOthers = 2;  ///< numbers before the factors
    static constexpr std::array kNumbers = [] {
        std::array<FunctionNumber, kOthers + LbfgsDirection::basis_count(LbfgsDirection::kPairsMax)>
            numbers{FunctionNumber{"length"}, FunctionNumber{"l1"}};
        for (size_t i = kOthers; i < numbers.size(); ++i)
            numbers[i] = FunctionNumber{.name = "factor", .otherwise = 0};
        return numbers;
    }();
    static constexpr uint32_t kTables = 2;
    static constexpr bool kAnyWidth = true;
    static constexpr double kCost = 4;
    template <class T>
    static constexpr bool kSupports = kIsDouble<T>;

    template <class T>
    static void change(const FunctionRows<T>& rows) {
        const uint32_t width = rows.width;
        const size_t count = basis_in(rows.with_width[0], width);
        require(rows.with_width[1] == width);
        const double length = rows.numbers[0];
        const double l1 = rows.numbers[1];
        const std::span<const double> factors = rows.numbers.subspan(kOthers);
        for_each_weight(rows.row_count, width, rows.with[0], rows.with_width[0],
                        [&](size_t at, const double* history) {
                            const double weight = rows.with[1][at];
                            const double pseudo = pseudo_gradient(history[0], weight, l1);
                            double direction = factors[0] * pseudo;
                            for (size_t b = 1; b < count; ++b)
                                direction += factors[b] * history[b * width];
                            rows.values[at] = step_of(weight, direction, pseudo, l1, length);
                        });
    }
};

/// Of steps; with the history and weights: products of the step with the (pseudo-)gradient, the weights and itself, and
/// |w + d|_1.
struct StepSums {
    static constexpr std::array kNumbers = {FunctionNumber{"l1"}};
    static constexpr uint32_t kTables = 2;
    static constexpr bool kAnyWidth = true;
    template <class T>
    static constexpr bool kSupports = kIsDouble<T>;

    static void begin(std::span<const double>, FunctionResult& result) {
        result.numbers.assign(4, 0);
    }

    template <class T>
    static void read(const FunctionRows<const T>& rows, FunctionResult& result) {
        (void)basis_in(rows.with_width[0], rows.width);
        require(rows.with_width[1] == rows.width);
        for_each_weight(rows.row_count, rows.width, rows.with[0], rows.with_width[0],
                        [&](size_t at, const double* history) {
                            const double step = rows.values[at];
                            const double weight = rows.with[1][at];
                            result.numbers[0] +=
                                pseudo_gradient(history[0], weight, rows.numbers[0]) * step;
                            result.numbers[1] += weight * step;
                            result.numbers[2] += step * step;
                            result.numbers[3] += std::abs(weight + step);
                        });
    }
};

/// Their names, as tables call them.
inline constexpr const char* kKeep = "lbfgs_keep";
inline constexpr const char* kProducts = "lbfgs_products";
inline constexpr const char* kStep = "lbfgs_step";
inline constexpr const char* kStepSums = "lbfgs_step_sums";

/// Makes them known to servers and workers: for JobOptions::add_rules.
[[nodiscard]] inline Status register_functions(RuleRegistry& registry) {
    WEIR_TRY(registry.register_function<Keep>(kKeep));
    WEIR_TRY(registry.register_function<Products>(kProducts));
    WEIR_TRY(registry.register_function<Step>(kStep));
    return registry.register_function<StepSums>(kStepSums);
}

}  // namespace weir::apps::lbfgs

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Rule: the update rule of a table, with its parameters; and the rules that Weir brings.
///
/// In the formulas, w is a value of the table and g is what was pushed to it. If a push names an
/// iteration, g combines what all workers pushed in that iteration, as the third column says. A
/// key that was never pushed reads as the table's initial value, which is also the first w.
///
/// | rule | w becomes | workers of an iteration | value types |
/// | --- | --- | --- | --- |
/// | assign() | g | the last one counts | all |
/// | sum(), mean() | g | sum; mean of the parts that have the key | all; float, double |
/// | add() | w + g; integers wrap around | sum | all |
/// | max(), min() | the greater, the smaller of w and g | greatest, smallest | all |
/// | count_min(depth) | conservative update of a sketch in each row | sum | all |
/// | sgd() and the rules behind it | a step against the gradient g, see there | sum | float, double |
/// | prox_l1(lambda, first_trust) | a step of proximal Newton, see there | sum | same |
///
/// So a push to sgd or adam brings the gradient, and a push to add brings the change.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "lib/store/rules/rule_parameters.h"

namespace weir {

/// A rule's name and its parameters. A name alone is a rule without parameters.
struct Rule {
    std::string name = "add";
    RuleParameters parameters{};

    Rule() = default;

    Rule(std::string rule_name, const RuleParameters& its_parameters = {})  // NOLINT: implicit
        : name(std::move(rule_name)), parameters(its_parameters) {}

    Rule(std::string_view rule_name) : name(rule_name) {}  // NOLINT: implicit on purpose

    Rule(const char* rule_name) : name(rule_name) {}  // NOLINT: implicit on purpose
};

/// The value becomes what was pushed.
[[nodiscard]] inline Rule assign() {
    return {"assign"};
}

/// What was pushed is added to the value.
[[nodiscard]] inline Rule add() {
    return {"add"};
}

/// The value becomes the greater one of itself and what was pushed.
[[nodiscard]] inline Rule max() {
    return {"max"};
}

/// The value becomes the smaller one of itself and what was pushed.
[[nodiscard]] inline Rule min() {
    return {"min"};
}

/// The value becomes the sum of what was pushed in this iteration.
[[nodiscard]] inline Rule sum() {
    return {"sum"};
}

/// The value becomes the mean of what was pushed in this iteration: of the parts that have the key.
[[nodiscard]] inline Rule mean() {
    return {"mean"};
}

/// A count-min sketch in each row: `depth` lines of width / depth counters. A push of an item brings its
/// count at one place of each line, and zeros elsewhere; its least counter grows by that, and its others
/// only as far as that one reaches (conservative update). Several items in a push are never counted too
/// low, but less sharply.
/// Source: Estan, Varghese, SIGCOMM 2002
[[nodiscard]] inline Rule count_min(uint32_t depth) {
    return {"count_min", {{static_cast<double>(depth)}}};
}

// Gradient descent. rate > 0, epsilon > 0; weight_decay, l1, l2 >= 0; momentum, beta1, beta2, decay in
// [0, 1). The state of a value, or of a row, begins at 0.

/// w -= rate (g + weight_decay w).
[[nodiscard]] inline Rule sgd(double rate, double weight_decay = 0) {
    return {"sgd", {{rate, weight_decay}}};
}

/// g += weight_decay w; s = momentum s + g; w -= rate s.
[[nodiscard]] inline Rule momentum(double rate, double momentum = 0.9, double weight_decay = 0) {
    return {"momentum", {{rate, momentum, weight_decay}}};
}

/// g += weight_decay w; s = momentum s + g; w -= rate (g + momentum s).
[[nodiscard]] inline Rule nesterov(double rate, double momentum = 0.9, double weight_decay = 0) {
    return {"nesterov", {{rate, momentum, weight_decay}}};
}

/// s += g^2; w -= rate g / (sqrt(s) + epsilon).
/// Source: Duchi, Hazan, Singer, JMLR 2011 (diagonal form)
[[nodiscard]] inline Rule adagrad(double rate, double epsilon = 1e-8) {
    return {"adagrad", {{rate, epsilon}}};
}

/// adagrad() with one s for a row: s += the mean of g^2 over the row.
[[nodiscard]] inline Rule row_adagrad(double rate, double epsilon = 1e-8) {
    return {"row_adagrad", {{rate, epsilon}}};
}

/// s = decay s + (1 - decay) g^2; w -= rate g / (sqrt(s) + epsilon).
[[nodiscard]] inline Rule rmsprop(double rate, double decay = 0.99, double epsilon = 1e-8) {
    return {"rmsprop", {{rate, decay, epsilon}}};
}

/// g += weight_decay w; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
/// w -= rate m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon), where t counts how often the row
/// was updated.
/// Source: Kingma, Ba, ICLR 2015
[[nodiscard]] inline Rule adam(double rate = 1e-3, double beta1 = 0.9, double beta2 = 0.999,
                               double epsilon = 1e-8, double weight_decay = 0) {
    return {"adam", {{rate, beta1, beta2, epsilon, weight_decay}}};
}

/// adam() whose weight decay is apart from the gradient: w -= rate weight_decay w before.
/// Source: Loshchilov, Hutter, ICLR 2019
[[nodiscard]] inline Rule adamw(double rate = 1e-3, double beta1 = 0.9, double beta2 = 0.999,
                                double epsilon = 1e-8, double weight_decay = 0.01) {
    return {"adamw", {{rate, beta1, beta2, epsilon, weight_decay}}};
}

/// w -= rate (sign(beta1 m + (1 - beta1) g) + weight_decay w); then m = beta2 m + (1 - beta2) g.
/// Source: Chen et al., Symbolic discovery of optimization algorithms, 2023
[[nodiscard]] inline Rule lion(double rate = 1e-4, double beta1 = 0.9, double beta2 = 0.99,
                               double weight_decay = 0) {
    return {"lion", {{rate, beta1, beta2, weight_decay}}};
}

/// FTRL-proximal: z += g - (sqrt(n + g^2) - sqrt(n)) / rate w; n += g^2;
/// w = 0 if |z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(n)) / rate + l2).
/// Source: McMahan et al., KDD 2013
[[nodiscard]] inline Rule ftrl(double rate, double beta = 1, double l1 = 0, double l2 = 0) {
    return {"ftrl", {{rate, beta, l1, l2}}};
}

/// For a loss with the penalty lambda |w|: a step of proximal Newton inside a trust region t.
/// A push brings two numbers per value, so that Table::pushed_width() is twice the width: the
/// gradient g, then the curvature u of the loss at w.
///   d = argmin  g d + u/2 d^2 + lambda |w + d|  with |d| <= t;  w += d;
///   t = max(4 |d|, t / 2, 1e-9); t begins at first_trust.
/// If u < 0, the push is a move: w -= g / u, without penalty or bound, and t stays the same.
/// A push may bring `rest`: a weight that was and stays 0 while |g| < rest is 0 then, and the KKT filter may
/// leave it out; every other 0 becomes -0.
/// lambda >= 0, first_trust > 0.
/// Source: Li et al., OSDI 2014, algorithm 3; Genkin, Lewis, Madigan, 2007
[[nodiscard]] inline Rule prox_l1(double lambda, double first_trust = 1) {
    return {"prox_l1", {{lambda, first_trust}}};
}

}  // namespace weir

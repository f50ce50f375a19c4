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
/// | add() | w + g; integers wrap around | sum | all |
/// | max(), min() | the greater, the smaller of w and g | greatest, smallest | all |
/// | sgd(rate) | w - rate g | sum | float, double |
/// | adagrad(rate, epsilon) | w - rate g / (sqrt(s) + epsilon), where s += g^2 before | sum | same |
/// | prox_l1(lambda, first_trust) | a step of proximal Newton, see there | sum | same |
///
/// So a push to sgd or adagrad brings the gradient, and a push to add brings the change.

#include <string>
#include <string_view>
#include <utility>

#include "lib/store/rules/rule.h"

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

/// Gradient descent: w -= rate * g. rate > 0.
[[nodiscard]] inline Rule sgd(double rate) {
    return {"sgd", {{rate}}};
}

/// AdaGrad: s += g^2, then w -= rate * g / (sqrt(s) + epsilon); s begins at 0. rate > 0,
/// epsilon > 0.
/// Source: Duchi, Hazan, Singer, JMLR 2011 (diagonal form)
[[nodiscard]] inline Rule adagrad(double rate, double epsilon = 1e-8) {
    return {"adagrad", {{rate, epsilon}}};
}

/// For a loss with the penalty lambda |w|: a step of proximal Newton inside a trust region t.
/// A push brings two numbers per value, so that Table::pushed_width() is twice the width: the
/// gradient g, then the curvature u of the loss at w.
///   d = argmin  g d + u/2 d^2 + lambda |w + d|  with |d| <= t;  w += d;
///   t = max(4 |d|, t / 2, 1e-9); t begins at first_trust.
/// If u < 0, the push is a move: w -= g / u, without penalty or bound, and t stays the same.
/// lambda >= 0, first_trust > 0.
/// Source: Li et al., OSDI 2014, algorithm 3; Genkin, Lewis, Madigan, 2007
[[nodiscard]] inline Rule prox_l1(double lambda, double first_trust = 1) {
    return {"prox_l1", {{lambda, first_trust}}};
}

}  // namespace weir

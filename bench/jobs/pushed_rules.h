// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// pushed_rules: the rules that `weir bench lookup` pushes to, each with what one core does in its place.

#include <string>
#include <vector>

#include "bench/limits/wide_steps.h"
#include "lib/store/rules/rules.h"

namespace weir::bench {

struct PushedRule {
    Rule rule;
    limits::WideStep step;
};

inline std::vector<PushedRule> pushed_rules() {
    using Kind = limits::WideStep::Kind;
    const limits::WideStep numbers;  // those of all kinds
    const double rate = 0.1;
    const double decay = 0.01;
    const double epsilon = 1e-8;
    const auto step = [&](Kind kind) {
        limits::WideStep all = numbers;
        all.kind = kind;
        return all;
    };
    return {{adagrad(rate, epsilon), step(Kind::kAdagrad)},
            {sum(), step(Kind::kAssign)},
            {mean(), step(Kind::kAssign)},
            {count_min(4), step(Kind::kCountMin)},
            {sgd(rate, decay), step(Kind::kSgd)},
            {momentum(rate, 0.9, decay), step(Kind::kMomentum)},
            {nesterov(rate, 0.9, decay), step(Kind::kNesterov)},
            {row_adagrad(rate, epsilon), step(Kind::kRowAdagrad)},
            {rmsprop(rate, 0.999, epsilon), step(Kind::kRmsProp)},
            {adam(rate, 0.9, 0.999, epsilon, decay), step(Kind::kAdam)},
            {adamw(rate, 0.9, 0.999, epsilon, decay), step(Kind::kAdamW)},
            {lion(rate, 0.9, 0.999, decay), step(Kind::kLion)},
            {ftrl(rate, 1, 0.01), step(Kind::kFtrl)},
            {prox_l1(0.01, 1), step(Kind::kProxL1)}};
}

}  // namespace weir::bench

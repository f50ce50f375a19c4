// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A table as simple as possible: a std::map and the rules as textbooks have them, in double.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "lib/store/table.h"

namespace weir::testing {

/// One row of type T with its state. Integers are kept small by the tests, so double is exact.
struct ModelRow {
    explicit ModelRow(uint32_t width, double initial, double initial_state)
        : values(width, initial), first(width, initial_state), second(width, 0) {}

    std::vector<double> values;
    std::vector<double> first;   // state of each value
    std::vector<double> second;  // more of it
    double of_row = 0;
    uint32_t steps = 0;
};

/// A rule as a textbook has it. `p`: parameters; `a`: arguments.
inline void model_rule(const std::string& rule, ModelRow& row, const std::vector<double>& pushed,
                       const RuleParameters& parameters, const RuleArguments& arguments) {
    const auto& p = parameters.value;
    const auto& a = arguments.value;
    const size_t width = row.values.size();
    ++row.steps;
    if (rule == "row_adagrad") {
        for (const double g : pushed)
            row.of_row += g * g / static_cast<double>(width);
    }
    const size_t depth = rule == "count_min" ? static_cast<size_t>(p[0]) : 1;
    double bound = std::numeric_limits<double>::infinity();
    for (size_t line = 0; rule == "count_min" && line < depth; ++line) {
        double greatest = -std::numeric_limits<double>::infinity();
        for (size_t i = 0; i < width / depth; ++i) {
            const size_t at = line * (width / depth) + i;
            if (pushed[at] > 0) greatest = std::max(greatest, row.values[at] + pushed[at]);
        }
        if (std::isfinite(greatest)) bound = std::min(bound, greatest);
    }
    for (size_t i = 0; i < width; ++i) {
        double& w = row.values[i];
        double& s = row.first[i];
        double& s2 = row.second[i];
        const double g = pushed[rule == "prox_l1" ? 2 * i : i];
        const auto t = static_cast<double>(row.steps);
        if (rule == "assign" || rule == "sum" || rule == "mean") w = g;
        if (rule == "add") w += g;
        if (rule == "max") w = std::max(w, g);
        if (rule == "min") w = std::min(w, g);
        if (rule == "count_min" && g > 0) w = std::max(w, std::min(w + g, bound));
        if (rule == "sgd") w -= a[0] * (g + a[1] * w);
        if (rule == "momentum" || rule == "nesterov") {
            const double with_decay = g + a[2] * w;
            s = a[1] * s + with_decay;
            w -= a[0] * (rule == "momentum" ? s : with_decay + a[1] * s);
        }
        if (rule == "adagrad") {
            s += g * g;
            w -= a[0] * g / (std::sqrt(s) + p[1]);
        }
        if (rule == "row_adagrad") w -= a[0] * g / (std::sqrt(row.of_row) + p[1]);
        if (rule == "rmsprop") {
            s = p[1] * s + (1 - p[1]) * g * g;
            w -= a[0] * g / (std::sqrt(s) + p[2]);
        }
        if (rule == "adam" || rule == "adamw") {
            const double with_decay = rule == "adam" ? g + a[1] * w : g;
            if (rule == "adamw") w -= a[0] * a[1] * w;
            s = p[1] * s + (1 - p[1]) * with_decay;
            s2 = p[2] * s2 + (1 - p[2]) * with_decay * with_decay;
            const double mean = s / (1 - std::pow(p[1], t));
            const double square = s2 / (1 - std::pow(p[2], t));
            w -= a[0] * mean / (std::sqrt(square) + p[3]);
        }
        if (rule == "lion") {
            const double mixed = p[1] * s + (1 - p[1]) * g;
            const double sign = mixed > 0 ? 1 : mixed < 0 ? -1 : 0;
            w -= a[0] * (sign + a[1] * w);
            s = p[2] * s + (1 - p[2]) * g;
        }
        if (rule == "ftrl") {  // s: z, s2: n
            const double sigma = (std::sqrt(s2 + g * g) - std::sqrt(s2)) / p[0];
            s += g - sigma * w;
            s2 += g * g;
            const double sign = s < 0 ? -1 : 1;
            w = std::abs(s) <= p[2] ? 0
                                    : -(s - sign * p[2]) / ((p[1] + std::sqrt(s2)) / p[0] + p[3]);
        }
        if (rule == "prox_l1" && pushed[2 * i + 1] < 0) {
            w -= g / pushed[2 * i + 1];
        } else if (rule == "prox_l1") {  // s: trust
            const double u = std::max(pushed[2 * i + 1], 1e-30);
            const double slope = u * w - g;  // u times where a step without penalty would end
            const double least = std::max(0.0, std::abs(slope) - p[0]) / u;
            const double next = w + std::clamp(std::copysign(least, slope) - w, -s, s);
            s = std::max({4 * std::abs(next - w), s / 2, 1e-9});
            w = next;
        }
    }
}

template <class T>
class ModelTable {
public:
    ModelTable(const TableSchema& schema, uint32_t pushed_values)
        : schema_(schema), pushed_values_(pushed_values) {}

    ModelRow& row(uint64_t key) {
        const double trust = schema_.rule == "prox_l1" ? schema_.parameters.value[1] : 0;
        const ModelRow initial(schema_.width, schema_.initial_value.first, trust);
        return rows_.try_emplace(key, initial).first->second;
    }

    void push(uint64_t key, const T* pushed, const RuleArguments& arguments) {
        push(key, std::vector<double>(pushed, pushed + schema_.width * pushed_values_), arguments);
    }

    /// Combines a push with what came before in this iteration.
    void aggregate(uint64_t key, const T* pushed) {
        const size_t count = schema_.width * pushed_values_;
        Pending& pending = pending_[key];
        ++pending.pushes;
        if (pending.pushes == 1) pending.sums.assign(pushed, pushed + count);
        for (size_t i = 0; i < count && pending.pushes > 1; ++i) {
            const auto in = static_cast<double>(pushed[i]);
            double& sum = pending.sums[i];
            if (schema_.rule == "assign") {
                sum = in;
            } else if (schema_.rule == "max") {
                sum = std::max(sum, in);
            } else if (schema_.rule == "min") {
                sum = std::min(sum, in);
            } else {
                sum += in;
            }
        }
    }

    void apply(const RuleArguments& arguments) {
        for (auto& [key, pending] : pending_) {
            for (double& sum : pending.sums) {
                if (schema_.rule == "mean") sum /= pending.pushes;
            }
            push(key, pending.sums, arguments);
        }
        pending_.clear();
    }

    /// True if `pulled`, the row of `key`, is what the model has, but for rounding.
    bool same(uint64_t key, const T* pulled) {
        auto& values = row(key).values;
        for (uint32_t i = 0; i < schema_.width; ++i) {
            const auto got = static_cast<double>(pulled[i]);
            const bool is_exact = !std::is_floating_point_v<T> || schema_.rule == "assign";
            const double rounding = std::is_same_v<T, float> ? 2e-4 : 1e-10;
            const double slack = is_exact ? 0 : rounding * (1 + std::abs(values[i]));
            if (!(std::abs(got - values[i]) <= slack)) return false;
            values[i] = got;  // rounding must not pile up over a long history
        }
        return true;
    }

private:
    struct Pending {
        std::vector<double> sums;
        int pushes = 0;
    };

    void push(uint64_t key, const std::vector<double>& pushed, const RuleArguments& arguments) {
        ModelRow& at = row(key);
        model_rule(schema_.rule, at, pushed, schema_.parameters, arguments);
        // The table keeps T, so the model goes on from what T can hold.
        for (std::vector<double>* some : {&at.values, &at.first, &at.second}) {
            for (double& value : *some)
                value = static_cast<double>(static_cast<T>(value));
        }
    }

    TableSchema schema_;
    uint32_t pushed_values_;
    std::map<uint64_t, ModelRow> rows_;
    std::map<uint64_t, Pending> pending_;
};

}  // namespace weir::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A table as simple as possible: a std::map and the rules as textbooks have them, in double.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lib/base/prox.h"
#include "lib/store/table.h"

namespace weir::testing {

/// One value of type T with its state. Integers are kept small by the tests, so double is exact.
template <class T>
struct ModelValue {
    double value = 0;
    double state = 0;
};

template <class T>
T model_rule(const std::string& rule, ModelValue<T>& at, const T* pushed, const RuleParameters& p) {
    const auto in = static_cast<double>(pushed[0]);
    if (rule == "assign") at.value = in;
    if (rule == "add") at.value += in;
    if (rule == "max") at.value = std::max(at.value, in);
    if (rule == "min") at.value = std::min(at.value, in);
    if (rule == "sgd") at.value -= p.value[0] * in;
    if (rule == "adagrad") {
        at.state += in * in;
        at.value -= p.value[0] * in / (std::sqrt(at.state) + p.value[1]);
    }
    if (rule == "prox_l1") {
        const auto next =
            prox_l1_step({at.value, at.state}, in, static_cast<double>(pushed[1]), p.value[0]);
        at.value = next.weight;
        at.state = next.trust;
    }
    // The table keeps T, so the model goes on from what T can hold.
    at.value = static_cast<double>(static_cast<T>(at.value));
    at.state = static_cast<double>(static_cast<T>(at.state));
    return static_cast<T>(at.value);
}

template <class T>
class ModelTable {
public:
    ModelTable(const TableSchema& schema, uint32_t pushed_values)
        : schema_(schema), pushed_values_(pushed_values) {}

    std::vector<ModelValue<T>>& row(uint64_t key) {
        const double trust = schema_.rule == "prox_l1" ? schema_.parameters.value[1] : 0;
        const ModelValue<T> initial{schema_.initial_value, trust};
        return rows_.try_emplace(key, schema_.width, initial).first->second;
    }

    void push(uint64_t key, const T* pushed) {
        auto& values = row(key);
        for (uint32_t i = 0; i < schema_.width; ++i)
            model_rule(schema_.rule, values[i], pushed + i * pushed_values_, schema_.parameters);
    }

    /// Combines a push with what came before in this iteration.
    void aggregate(uint64_t key, const T* pushed) {
        const size_t count = schema_.width * pushed_values_;
        const auto [at, fresh] = pending_.try_emplace(key, pushed, pushed + count);
        if (fresh) return;
        for (size_t i = 0; i < count; ++i) {
            T& sum = at->second[i];
            if (schema_.rule == "assign") {
                sum = pushed[i];
            } else if (schema_.rule == "max") {
                sum = std::max(sum, pushed[i]);
            } else if (schema_.rule == "min") {
                sum = std::min(sum, pushed[i]);
            } else {
                sum = static_cast<T>(sum + pushed[i]);
            }
        }
    }

    void apply() {
        for (const auto& [key, sum] : pending_)
            push(key, sum.data());
        pending_.clear();
    }

    /// True if `pulled`, the row of `key`, is what the model has, but for rounding.
    bool same(uint64_t key, const T* pulled) {
        auto& values = row(key);
        for (uint32_t i = 0; i < schema_.width; ++i) {
            const auto got = static_cast<double>(pulled[i]);
            const double slack = std::is_floating_point_v<T> && schema_.rule != "assign"
                                     ? 2e-4 * (1 + std::abs(values[i].value))
                                     : 0;
            if (!(std::abs(got - values[i].value) <= slack)) return false;
            values[i].value = got;  // rounding must not pile up over a long history
        }
        return true;
    }

private:
    TableSchema schema_;
    uint32_t pushed_values_;
    std::map<uint64_t, std::vector<ModelValue<T>>> rows_;
    std::map<uint64_t, std::vector<T>> pending_;
};

}  // namespace weir::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Rules by row whose rows say what has happened to them: how often the rule ran, in which order and with
/// which arguments, and under which key. All of it is exact, so that a model can compute it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "lib/store/rules/rule.h"
#include "tests/cluster/counted_rounds.h"

namespace weir::test {

/// What rules of these tests have in common.
struct JudgedRow {
    static constexpr uint32_t kPushedValues = 1;
    static constexpr Combine kCombine = Combine::kSum;
    static constexpr bool kWantsKeys = true;
    static constexpr std::array kArguments = {RuleArgument{.name = "factor", .otherwise = 1}};

    static const char* check(const RuleParameters&, uint32_t) { return nullptr; }
};

/// For pushes outside of iterations, each of which adds a bit of its own to each key (CountedPushes). A
/// negative number is refused by an exception, in the middle of the row.
struct StepsByRow : JudgedRow {
    /// Columns: what the row began with, bits, bits times the factors of their pushes, steps, sum of keys.
    static constexpr uint32_t kWidth = 5;
    template <class T>
    static constexpr bool kSupports = std::is_same_v<T, double>;

    template <class T>
    static constexpr size_t state_bytes(size_t) {
        return sizeof(uint32_t);
    }

    template <class T>
    static void update_row(const RuleRow<T>& row, const RuleContext& context) {
        auto* const steps = row.template state_at<uint32_t>(0);
        if (*steps == 0) row.values[1] = row.values[2] = row.values[3] = row.values[4] = 0;
        const T bit = row.pushed[0];
        row.values[1] += bit < 0 ? -bit : bit;
        if (bit < 0) throw std::runtime_error("what was pushed is negative");
        row.values[2] += bit * static_cast<T>(context.arguments.value[0]);
        row.values[3] = static_cast<T>(++*steps);
        row.values[4] += static_cast<T>(row.key);
    }
};

/// RoundsInOrder, beside a sum with momentum, which depends on the order of iterations and on their
/// arguments, the number of steps and the sum of keys.
struct RoundsByRow : JudgedRow {
    static constexpr uint32_t kWidth = 4;
    template <class T>
    static constexpr bool kSupports = std::is_same_v<T, uint64_t>;

    template <class T>
    static constexpr size_t state_bytes(size_t) {
        return sizeof(uint64_t) + sizeof(uint32_t);
    }

    template <class T>
    static void update_row(const RuleRow<T>& row, const RuleContext& context) {
        if (row.pushed[0] == 0) return;
        auto* const sum = row.template state_at<uint64_t>(0);
        auto* const steps = row.template state_at<uint32_t>(1);
        RoundsInOrder::update<T>(row.values[0], nullptr, row.pushed, context);
        *sum = kMomentumOfRows * *sum +
               row.pushed[0] * static_cast<uint64_t>(context.arguments.value[0]);
        row.values[1] = *sum;
        row.values[2] = ++*steps;
        row.values[3] += row.key;
    }
};

}  // namespace weir::test

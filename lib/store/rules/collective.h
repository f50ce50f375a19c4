// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Collective: the rule of the table that Client::allreduce() and broadcast() use.

#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "lib/store/rules/builtin_rules.h"
#include "lib/store/rules/rule.h"

namespace weir::rules {

/// What it is called by: tables and rules of such names are Weir's own.
inline constexpr std::string_view kWeirsOwn = "weir.";

/// The values become what the workers have pushed in the iteration, combined as its arguments say: one
/// table serves all operations, so that workers that do not call the same meet in one iteration, which
/// fails by their arguments. A value is 8 bytes: a double, or an integer with or without a sign.
struct Collective : Assign {
    enum Operation : uint8_t { kSum, kMax, kMin, kMean, kBroadcast };

    template <class T>
    static constexpr bool kSupports = std::is_same_v<T, uint64_t>;

    /// `type`: ValueType of the callers' values, `count` of these; `from`: of a broadcast, the worker;
    /// `not_finite`: 1 if the worker brings none, because one is a NaN or an infinity.
    static constexpr std::array kArguments = {
        RuleArgument{.name = "operation"}, RuleArgument{.name = "type"},
        RuleArgument{.name = "count"}, RuleArgument{.name = "from"},
        RuleArgument{.name = "not_finite"}};

    /// Of values of `type`, as they are stored.
    [[nodiscard]] static constexpr ValueType slot_type(ValueType type) noexcept {
        if (is_floating(type)) return ValueType::kFloat64;
        const bool is_signed = type == ValueType::kInt32 || type == ValueType::kInt64;
        return is_signed ? ValueType::kInt64 : ValueType::kUInt64;
    }

    /// Of any arguments. The client divides the sum for a mean, and only one worker broadcasts.
    static CombineAs combine_as(const RuleArguments& arguments) {
        const auto is = [&](size_t i, uint8_t value) {
            return arguments.value[i] == static_cast<double>(value);
        };
        if (is(0, kBroadcast)) return {Combine::kLast, ValueType::kUInt64};
        CombineAs as;
        if (is(0, kMax)) as.combine = Combine::kMax;
        if (is(0, kMin)) as.combine = Combine::kMin;
        for (uint8_t type = 0; type < kValueTypeCount; ++type) {
            if (is(1, type)) as.type = slot_type(static_cast<ValueType>(type));
        }
        return as;
    }
};

}  // namespace weir::rules

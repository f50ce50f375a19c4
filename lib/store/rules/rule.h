// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What an update rule is. Built-in rules and users' rules have the same form.
///
/// A rule is a struct:
/// ```cpp
/// struct Momentum {
///     static constexpr uint32_t kStateValues = 1;         // kept beside each value
///     static constexpr uint32_t kPushedValues = 1;        // sent for each value
///     static constexpr Combine kCombine = Combine::kSum;  // of several workers' pushes
///     template <class T>
///     static constexpr bool kSupports = std::is_floating_point_v<T>;
///     static const char* check(const RuleParameters& p);  // nullptr, or what is wrong with them
///     static double initial_state(const RuleParameters& p);
///     template <class T>
///     static void update(T& value, T* state, const T* pushed, const RuleParameters& p);
/// };
/// ```
/// A rule may also name its parameters, which are then checked before check() sees them, and have a
/// version, which its author raises with each change of what it does:
/// ```cpp
///     static constexpr std::array kParameters = {RuleParameter{.name = "rate"}};
///     static constexpr uint32_t kVersion = 2;
/// ```
/// A server whose rule of the table's name has another version, or differs in what can be compared (all
/// of the above but check() and update()), cannot have the table.
/// `registry.register_rule<Momentum>("momentum")` makes its kernels for every type it supports.
/// update() must touch nothing but its arguments. Keep it inline and free of branches: then the
/// compiler can vectorise it.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/key/value_type.h"
#include "lib/store/row_store.h"

namespace weir {

/// The numeric parameters of a rule. Each rule says which is which.
struct RuleParameters {
    std::array<double, 4> value{};
    friend bool operator==(const RuleParameters&, const RuleParameters&) = default;
};

/// What a rule may say of a parameter: it must be finite, and greater than 0 (may_be_zero: at
/// least 0).
struct RuleParameter {
    const char* name = "";
    bool may_be_zero = false;
};

/// How the pushes of several workers are combined before the rule sees them.
enum class Combine : uint8_t { kSum, kMax, kMin, kLast };

/// Whether it can update values of this type, if it says so.
template <class R, class T>
concept Updates = !R::template kSupports<T> ||
                  requires(T & value, T* state, const T* pushed, const RuleParameters& p) {
    R::update(value, state, pushed, p);
};

template <class R, class... T>
concept UpdatesEach = (Updates<R, T> && ...);

template <class R>
concept UpdateRule = requires(const RuleParameters& p) {
    { R::kStateValues } -> std::convertible_to<uint32_t>;
    { R::kPushedValues } -> std::convertible_to<uint32_t>;
    { R::kCombine } -> std::convertible_to<Combine>;
    { R::check(p) } -> std::same_as<const char*>;
    { R::initial_state(p) } -> std::same_as<double>;
}

&&(R::kPushedValues > 0) && UpdatesEach<R, float, double, int32_t, int64_t, uint32_t, uint64_t>;

/// A rule with a version; others have 0.
template <class R>
concept HasVersion = requires {
    { R::kVersion } -> std::convertible_to<uint32_t>;
};

/// A rule that names its parameters.
template <class R>
concept NamesParameters = requires {
    std::span<const RuleParameter>(R::kParameters);
};

/// Where the values and the state of a table's rows lie.
struct RowTarget {
    RowView values;
    RowView state;  ///< not used by rules without state
    uint32_t width = 1;
};

/// Updates `value_count` values side by side, with their state (kStateValues per value) and what
/// was pushed to them (kPushedValues per value).
using RunKernel = void (*)(std::byte* values, std::byte* state, const std::byte* pushed,
                           size_t value_count, const RuleParameters& parameters);

/// Updates any rows of `target`. `pushed` has width x kPushedValues values for each, in order.
using RowsKernel = void (*)(const RowTarget& target, std::span<const uint32_t> rows,
                            const std::byte* pushed, const RuleParameters& parameters);

/// The kernels of a rule for one value type; null if the rule does not support it.
struct RuleKernels {
    RunKernel run = nullptr;
    RowsKernel rows = nullptr;
};

}  // namespace weir

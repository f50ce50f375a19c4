// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What an update rule is. Built-in rules and users' rules have the same form.
///
/// A rule is a struct. One that is *elementwise* changes each value by itself:
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
///     static void update(T& value, T* state, const T* pushed, const RuleContext& context);
/// };
/// ```
/// A rule *by row* sees a whole row, and its key if it wants that. The state is laid out as it likes,
/// and begins as zeros:
/// ```cpp
/// struct GroupLasso {
///     static constexpr uint32_t kPushedValues = 1;
///     static constexpr Combine kCombine = Combine::kSum;
///     static constexpr bool kWantsKeys = false;           // may be left out
///     template <class T>
///     static constexpr bool kSupports = std::is_floating_point_v<T>;
///     static const char* check(const RuleParameters& p, uint32_t width);
///     template <class T>
///     static constexpr size_t state_bytes(size_t width);  // of a row
///     template <class T>
///     static void update_row(const RuleRow<T>& row, const RuleContext& context);
/// };
/// ```
/// A rule may also name its parameters, which are then checked before check() sees them; its arguments;
/// have a version, which its author raises with each change of what it does; and say how narrow values
/// are rounded in tables that do not say it:
/// ```cpp
///     static constexpr std::array kParameters = {RuleParameter{.name = "rate"}};
///     static constexpr std::array kArguments = {RuleArgument{.name = "rate"}};
///     static constexpr uint32_t kVersion = 2;
///     static constexpr Rounding kRounding = Rounding::kStochastic;  // of narrow values; else the nearest
/// ```
/// A server whose rule of the table's name has another version, or differs in what can be compared (all
/// of the above but check(), update() and update_row()), cannot have the table.
/// `registry.register_rule<Momentum>("momentum")` makes its kernels for every type it supports.
/// update() and update_row() must touch nothing but their arguments. Keep them inline and free of
/// branches: then the compiler can vectorise them. If one throws, the job ends with an error that names
/// the rule (RuleThrew).

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "lib/base/random.h"
#include "lib/key/value_type.h"
#include "lib/store/row_store.h"
#include "lib/store/rules/combine_as.h"
#include "lib/store/rules/rule_parameters.h"

namespace weir {

/// What a rule may say of a parameter: it must be finite, and greater than 0 (may_be_zero: at
/// least 0); below_one: and less than 1.
struct RuleParameter {
    const char* name = "";
    bool may_be_zero = false;
    bool below_one = false;
};

/// Numbers that a push may bring, in the order in which its rule names them.
struct RuleArguments {
    std::array<double, 8> value{};
    friend bool operator==(const RuleArguments&, const RuleArguments&) = default;
};

/// A number that a push may bring. If it does not, it is the table's parameter of that name; without
/// such a parameter, `otherwise`. It must be finite, 0 or greater unless may_be_negative, and less than 1
/// if the parameter is below_one.
struct RuleArgument {
    const char* name = "";
    double otherwise = 0;
    bool may_be_negative = false;
};

/// What a rule knows beside the rows that it changes.
struct RuleContext {
    RuleParameters parameters{};
    RuleArguments arguments{};  ///< of the push, or of the iteration; all of them
    /// Of the rows that a kernel gets, in order; only of a rule that wants keys.
    std::span<const uint64_t> keys{};
    uint64_t* at = nullptr;  ///< with those: the key of the row that is being updated, for errors
    /// What it gives never comes again, also not after a takeover: copies get values.
    Random* random = nullptr;
    const void* code = nullptr;  ///< of a rule from a plugin: RuleEntry::code
    uint32_t state_bytes = 0;    ///< with that: of a row
};

/// A row, as a rule by row sees it.
template <class T>
struct RuleRow {
    T* values = nullptr;
    std::byte* state = nullptr;  ///< aligned as T is; null if the rule keeps none
    const T* pushed = nullptr;   ///< width x kPushedValues
    uint32_t width = 1;          ///< values
    uint64_t key = 0;            ///< 0 if the rule does not want keys

    /// State that begins `values` values of T behind the beginning.
    template <class S = T>
    [[nodiscard]] S* state_at(size_t values_before) const noexcept {
        return reinterpret_cast<S*>(state + values_before * sizeof(T));
    }
};

/// Whether it can update values of this type, if it says so.
template <class R, class T>
concept Updates = !R::template kSupports<T> ||
                  requires(T & value, T* state, const T* pushed, const RuleContext& context) {
    R::update(value, state, pushed, context);
};

template <class R, class T>
concept UpdatesRows =
    !R::template kSupports<T> || requires(const RuleRow<T>& row, const RuleContext& context) {
    R::update_row(row, context);
    { R::template state_bytes<T>(size_t{1}) } -> std::convertible_to<size_t>;
};

template <class R, class... T>
concept UpdatesEach = (Updates<R, T> && ...);

template <class R, class... T>
concept UpdatesRowsOfEach = (UpdatesRows<R, T> && ...);

template <class R>
concept CombinesPushes = requires {
    { R::kPushedValues } -> std::convertible_to<uint32_t>;
    { R::kCombine } -> std::convertible_to<Combine>;
}

&&(R::kPushedValues > 0);

template <class R>
concept ElementwiseRule = CombinesPushes<R> && requires(const RuleParameters& p) {
    { R::kStateValues } -> std::convertible_to<uint32_t>;
    { R::check(p) } -> std::same_as<const char*>;
    { R::initial_state(p) } -> std::same_as<double>;
}

&& UpdatesEach<R, float, double, int32_t, int64_t, uint32_t, uint64_t>;

template <class R>
concept RowRule = CombinesPushes<R> && requires(const RuleParameters& p) {
    { R::check(p, uint32_t{1}) } -> std::same_as<const char*>;
}

&& UpdatesRowsOfEach<R, float, double, int32_t, int64_t, uint32_t, uint64_t>;

template <class R>
concept UpdateRule = ElementwiseRule<R> || RowRule<R>;

/// A rule whose arguments say how the parts of an iteration are combined. For Weir's own rules.
template <class R>
concept CombinesByArguments = requires(const RuleArguments& arguments) {
    { R::combine_as(arguments) } -> std::same_as<CombineAs>;
};

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

/// A rule that names its arguments; another one has none.
template <class R>
concept NamesArguments = requires {
    std::span<const RuleArgument>(R::kArguments);
};

/// A rule by row that updates rows of one value, side by side, as update_row() would one after the
/// other, but quicker: static void update_singles(T* values, std::byte* state, const T* pushed, size_t
/// row_count, const RuleContext& context).
template <class R, class T>
concept UpdatesSingles = requires(T* values, std::byte* state, const T* pushed,
                                  const RuleContext& context) {
    R::update_singles(values, state, pushed, size_t{1}, context);
};

/// A rule that says what its values add to the objective that is minimised: static double penalty(double value, const
/// RuleParameters& p).
template <class R>
concept HasPenalty = requires(const RuleParameters& p) {
    { R::penalty(double{}, p) } -> std::same_as<double>;
};

/// A rule by row that wants keys: its tables keep them by row from the start.
template <class R>
concept WantsKeys = requires {
    requires R::kWantsKeys;
};

/// Where the keys of rows are.
struct RowKeys {
    const void* store = nullptr;
    void (*find)(const void* store, std::span<const uint32_t> rows, uint64_t* keys) = nullptr;
};

/// Where the values and the state of a table's rows lie.
struct RowTarget {
    RowView values;
    RowView state;  ///< not used by rules without state
    uint32_t width = 1;
    RowKeys keys{};  ///< only used by rules that want keys
};

/// Updates rows side by side, with their state and what was pushed to them.
using RunKernel = void (*)(std::byte* values, std::byte* state, const std::byte* pushed,
                           size_t row_count, uint32_t width, const RuleContext& context);

/// Updates any rows of `target`. `pushed` has what was pushed to each, in order.
using RowsKernel = void (*)(const RowTarget& target, std::span<const uint32_t> rows,
                            const std::byte* pushed, const RuleContext& context);

/// The kernels of a rule for one value type; null if the rule does not support it.
struct RuleKernels {
    RunKernel run = nullptr;
    RowsKernel rows = nullptr;
    std::function<size_t(size_t width)> state_bytes{};  ///< of a row
};

}  // namespace weir

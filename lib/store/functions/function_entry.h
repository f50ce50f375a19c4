// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FunctionEntry: a function of servers as tables use it, independent of the struct that it was made from.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lib/base/kernel.h"
#include "lib/base/result.h"
#include "lib/key/value_type.h"
#include "lib/store/functions/function.h"

namespace weir {

struct FunctionEntry {
    /// Of rows whose values have one type. One that changes adds nothing to the result.
    using Run = std::function<void(const FunctionRows<std::byte>&, FunctionResult&)>;

    std::string name;
    uint32_t version = 0;  ///< that its author gives
    bool changes = false;  ///< the rows of the table that is called; else it reads them
    uint32_t tables = 0;   ///< others, that it reads
    bool wants_keys = false;
    bool any_width = false;  ///< of the others
    double cost = 1;
    std::vector<FunctionNumber> numbers{};
    std::function<const char*(std::span<const double> numbers)> check{};  ///< empty: any will do
    std::array<Run, kComputedTypeCount> runs{};  ///< empty: not of such values
    std::function<void(std::span<const double> numbers, FunctionResult&)> begin{};
    std::function<void(FunctionResult& into, const FunctionResult& other,
                       std::span<const double> numbers)>
        merge{};
    /// Of a result: how many numbers, and how many keys.
    std::function<size_t(std::span<const double> numbers)> results_max{};
    /// Puts a result in its last form, once all rows of a request were read; empty: it has it.
    std::function<void(FunctionResult&, std::span<const double> numbers)> end{};
    bool is_penalty = false;  ///< it runs what the table's rule says (RuleEntry::penalty)
    std::shared_ptr<const void> owner{};  ///< of what the entry refers to; null: the program
    uint64_t id = 0;  ///< a hash of facts(), made by RuleRegistry::add(): names it on the wire

    [[nodiscard]] size_t results_of(std::span<const double> given) const;

    /// All that can be compared: not what it does.
    [[nodiscard]] std::string facts() const;

    [[nodiscard]] bool supports(ValueType type) const noexcept {
        return is_valid(type) &&
               (is_penalty || runs[static_cast<size_t>(computed_type(type))] != nullptr);
    }

    /// All numbers of a call that brings `given`.
    /// Errors: Errc::kInvalidArgument, naming function and number
    [[nodiscard]] Result<std::vector<double>> all_numbers(std::span<const double> given) const;

    /// Adds `other` to `into`: results of other rows.
    void put_together(FunctionResult& into, const FunctionResult& other,
                      std::span<const double> given) const;
    /// Whether a result that comes from elsewhere is one that put_together() may be given.
    [[nodiscard]] bool may_be_result(std::span<const double> given,
                                     const FunctionResult& result) const;
    /// Of a result, as it travels.
    [[nodiscard]] size_t result_bytes_max(std::span<const double> given) const;

    /// How many rows a piece of a call may have, of which the widest of the tables has `width` values: of a range, or
    /// of a list, whose rows lie anywhere. So it takes a millisecond or two, and its values have room in a record.
    [[nodiscard]] uint64_t rows_max(ValueType type, uint32_t width, bool is_range) const noexcept;
};

template <class F, class T>
concept ChangesRows = requires(const FunctionRows<T>& rows) {
    F::change(rows);
};

template <class F, class T>
concept ReadsRows = requires(const FunctionRows<const T>& rows, FunctionResult& result) {
    F::read(rows, result);
};

template <class F, class T>
constexpr bool supports_values() {
    if constexpr (requires {
                      { F::template kSupports<T> } -> std::convertible_to<bool>;
                  })
        return F::template kSupports<T>;
    return true;
}

/// A struct as function.h says.
template <class F>
concept ServerFunction = ChangesRows<F, float> || ChangesRows<F, double> ||
    ChangesRows<F, int32_t> || ChangesRows<F, int64_t> || ChangesRows<F, uint32_t> ||
    ChangesRows<F, uint64_t> || requires(FunctionResult& result) {
    F::begin(std::span<const double>(), result);
};

namespace kernels {

/// `T`: const of a function that reads.
template <class T>
[[nodiscard]] FunctionRows<T> typed(const FunctionRows<std::byte>& rows) noexcept {
    FunctionRows<T> of;
    of.values = reinterpret_cast<T*>(rows.values);
    for (size_t i = 0; i < kFunctionTablesMax; ++i)
        of.with[i] = reinterpret_cast<const std::remove_const_t<T>*>(rows.with[i]);
    of.row_count = rows.row_count;
    of.width = rows.width;
    of.with_width = rows.with_width;
    of.keys = rows.keys;
    of.numbers = rows.numbers;
    of.parameters = rows.parameters;
    return of;
}

template <class F, class T>
WEIR_KERNEL [[gnu::flatten]] void change_rows(const FunctionRows<T>& rows) {
    F::change(rows);
}

template <class F, class T>
WEIR_KERNEL [[gnu::flatten]] void read_rows(const FunctionRows<const T>& rows,
                                            FunctionResult& result) {
    F::read(rows, result);
}

}  // namespace kernels

/// Errors: Errc::kInvalidArgument for a name with control characters, or without any, and for numbers of that kind
[[nodiscard]] Status check_function(const FunctionEntry& entry);

/// Those that every server has.
[[nodiscard]] std::vector<FunctionEntry> builtin_functions();

template <ServerFunction F>
[[nodiscard]] FunctionEntry make_function(std::string_view name) {
    FunctionEntry entry;
    entry.name = name;
    constexpr bool kReads = requires(FunctionResult & result) {
        F::begin(std::span<const double>(), result);
    };
    entry.changes = !kReads;
    if constexpr (requires { F::kVersion; }) entry.version = F::kVersion;
    if constexpr (requires { F::kTables; }) entry.tables = F::kTables;
    if constexpr (requires { F::kWantsKeys; }) entry.wants_keys = F::kWantsKeys;
    if constexpr (requires { F::kAnyWidth; }) entry.any_width = F::kAnyWidth;
    if constexpr (requires { F::kCost; }) entry.cost = F::kCost;
    if constexpr (requires { F::kNumbers; })
        entry.numbers.assign(F::kNumbers.begin(), F::kNumbers.end());
    if constexpr (requires { F::check(std::span<const double>()); }) entry.check = &F::check;
    if constexpr (kReads) entry.begin = &F::begin;
    if constexpr (requires(FunctionResult & result) {
                      F::merge(result, result, std::span<const double>());
                  })
        entry.merge = &F::merge;
    if constexpr (requires(FunctionResult & result) { F::end(result, std::span<const double>()); })
        entry.end = &F::end;
    if constexpr (requires { F::results_max(std::span<const double>()); })
        entry.results_max = &F::results_max;
    for (size_t i = 0; i < kComputedTypeCount; ++i) {
        entry.runs[i] =
            with_value_type(static_cast<ValueType>(i), []<class T>() -> FunctionEntry::Run {
                if constexpr (!supports_values<F, T>()) {
                    return {};
                } else if constexpr (kReads) {
                    static_assert(ReadsRows<F, T>, "read() of values of this type; see kSupports");
                    return [](const FunctionRows<std::byte>& rows, FunctionResult& result) {
                        kernels::read_rows<F, T>(kernels::typed<const T>(rows), result);
                    };
                } else {
                    static_assert(ChangesRows<F, T>,
                                  "change() of values of this type; see kSupports");
                    return [](const FunctionRows<std::byte>& rows, FunctionResult&) {
                        kernels::change_rows<F, T>(kernels::typed<T>(rows));
                    };
                }
            });
    }
    return entry;
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How a function is written that runs on servers, on rows where they lie: Table::call().
///
/// A function changes the rows of the table that is called, or reads them. It may read the rows with the same
/// keys of up to kFunctionTablesMax other tables, which have the same type, width, layout and number of keys; with
/// kAnyWidth, those of any width.
/// ```cpp
/// struct Fade {  // a function that changes: w = keep * w + add * u
///     static constexpr std::array kNumbers = {weir::FunctionNumber{"keep"},
///                                             weir::FunctionNumber{.name = "add", .otherwise = 1}};
///     static constexpr uint32_t kTables = 1;  // u; left out: none
///     template <class T>
///     static constexpr bool kSupports = std::is_floating_point_v<T>;
///     template <class T>
///     static void change(const weir::FunctionRows<T>& rows) {
///         for (size_t i = 0; i < rows.value_count(); ++i)
///             rows.values[i] = T(rows.numbers[0]) * rows.values[i] + T(rows.numbers[1]) * rows.with[0][i];
///     }
/// };
///
/// struct SumOfCubes {  // one that reads
///     static void begin(std::span<const double>, weir::FunctionResult& result) { result.numbers = {0}; }
///     template <class T>
///     static void read(const weir::FunctionRows<const T>& rows, weir::FunctionResult& result) {
///         for (size_t i = 0; i < rows.value_count(); ++i)
///             result.numbers[0] += std::pow(double(rows.values[i]), 3);
///     }
/// };
/// ```
/// What a struct may say more:
///  - `static const char* check(std::span<const double> numbers)`: what is wrong with them; null: nothing.
///  - `static constexpr bool kWantsKeys = true`: rows come with their keys.
///  - `static constexpr bool kAnyWidth = true`: other tables may be wider or narrower than the one that is called;
///    FunctionRows::with_width says it.
///  - `static constexpr double kCost = 8`: of a value, in those that axpy takes (a third of a nanosecond or so).
///    A piece of a call is cut so that it takes some milliseconds; what it costs more holds up pushes. Less than 1
///    counts as 1.
///  - `static constexpr uint32_t kVersion = 2`: servers refuse calls of another version.
///  - of one that reads, `static size_t results_max(std::span<const double> numbers)`: how many numbers, and how many
///    keys, a result has at most, up to 131072; left out: 512.
///  - of one that reads, `static void end(weir::FunctionResult& result, std::span<const double> numbers)`: puts a result
///    in its last form, before it travels, and before merge() gets it.
///  - of one that reads, `static void merge(weir::FunctionResult& into, const weir::FunctionResult& other,
///    std::span<const double> numbers)`: puts results of other rows together; left out: numbers are added up.
///
/// A result has as many numbers and keys as begin() has given it; if those are none, as many numbers as keys.
///
/// `registry.register_function<Fade>("fade")` (Job::rules()) makes it known to servers and workers: both need it.
/// A function must touch nothing but its rows and its result, and must not keep what it is given. If it throws, the
/// job ends with an error that names it: nobody knows which rows it has changed.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "lib/store/rules/rule_parameters.h"

namespace weir {

/// Other tables that a function reads.
inline constexpr size_t kFunctionTablesMax = 4;
/// Numbers that a call brings.
inline constexpr size_t kFunctionNumbersMax = 64;

/// A number that a call brings, in the order in which the function names them. It is finite, unless it may_be_infinite.
struct FunctionNumber {
    const char* name = "";
    /// NaN: each call must bring it.
    double otherwise = std::numeric_limits<double>::quiet_NaN();
    bool may_be_infinite = false;
};

/// What a function that reads has found.
struct FunctionResult {
    std::vector<double> numbers;
    std::vector<uint64_t> keys;

    friend bool operator==(const FunctionResult&, const FunctionResult&) = default;
};

/// Some rows, side by side; narrow values as floats. T: const of a function that reads.
template <class T>
struct FunctionRows {
    T* values = nullptr;                              ///< of the table that is called
    std::array<const T*, kFunctionTablesMax> with{};  ///< of the others, the rows of the same keys
    size_t row_count = 0;
    uint32_t width = 1;  ///< values of a row
    std::array<uint32_t, kFunctionTablesMax>
        with_width{};                            ///< of the others; without kAnyWidth, the same
    const uint64_t* keys = nullptr;              ///< by row; null: it does not want them
    std::span<const double> numbers;             ///< all of kNumbers
    const RuleParameters* parameters = nullptr;  ///< of the rule of the table that is called

    [[nodiscard]] size_t value_count() const noexcept { return row_count * width; }
};

}  // namespace weir

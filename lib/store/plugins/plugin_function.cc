// SPDX-License-Identifier: Apache-2.0
#include "lib/store/plugins/plugin_function.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lib/store/plugins/plugin_struct.h"

namespace weir {
namespace {

static_assert(WEIR_FUNCTION_NUMBERS_MAX == kFunctionNumbersMax &&
              WEIR_FUNCTION_TABLES_MAX == kFunctionTablesMax);

/// What an entry refers to.
struct PluginFunction {
    std::shared_ptr<void> object;
    weir_function is{};              ///< without its texts and arrays
    std::vector<std::string> names;  ///< of numbers; its size never changes

    [[nodiscard]] double first_result() const noexcept {
        constexpr double kInfinity = std::numeric_limits<double>::infinity();
        return is.result_combine == WEIR_MAX   ? -kInfinity
               : is.result_combine == WEIR_MIN ? kInfinity
                                               : 0;
    }

    void combine(std::vector<double>& into, const std::vector<double>& other) const {
        for (size_t i = 0; i < into.size(); ++i) {
            into[i] = is.result_combine == WEIR_MAX   ? std::max(into[i], other[i])
                      : is.result_combine == WEIR_MIN ? std::min(into[i], other[i])
                                                      : into[i] + other[i];
        }
    }

    void run(ValueType type, const FunctionRows<std::byte>& rows, FunctionResult& result) const {
        char error[kErrorBytesMax] = {};
        std::vector<double> found(is.result_count, first_result());
        weir_function_rows some{};
        some.size = sizeof some;
        some.value_type = static_cast<uint32_t>(type);
        some.width = rows.width;
        some.row_count = rows.row_count;
        some.values = rows.values;
        std::ranges::copy(rows.with, some.with);
        some.keys = rows.keys;
        some.numbers = rows.numbers.data();
        some.parameters = rows.parameters->value.data();
        some.results = found.data();
        some.error = error;
        some.error_bytes_max = sizeof error;
        if (is.run(&some, is.user) != 0) {
            error[sizeof error - 1] = 0;
            throw std::runtime_error(error[0] != 0 ? error : "an error, of which it says nothing");
        }
        combine(result.numbers, found);
    }
};

Error refused_function(std::string_view function, std::string_view why) {
    return {Errc::kInvalidArgument,
            fmt::format("its function{} {}", function.empty() ? "" : fmt::format(" '{}'", function),
                        why)};
}

/// What is wrong with it; empty: nothing.
std::string wrong_with(const weir_function& function) {
    if (function.run == nullptr) return "has no function `run`";
    if (function.types == 0 || (function.types & ~WEIR_TYPES_ALL) != 0)
        return fmt::format(
            "has `types` {:#x}: set a WEIR_TYPE() of each type that it takes, and nothing else",
            function.types);
    if ((function.flags & ~uint32_t{WEIR_WANTS_KEYS}) != 0)
        return fmt::format("has `flags` {:#x}: WEIR_WANTS_KEYS or 0", function.flags);
    if (function.tables > WEIR_FUNCTION_TABLES_MAX)
        return fmt::format("reads {} other tables; {} at most", function.tables,
                           WEIR_FUNCTION_TABLES_MAX);
    if (function.number_count > WEIR_FUNCTION_NUMBERS_MAX ||
        (function.number_count > 0 && function.numbers == nullptr))
        return fmt::format("has `number_count` {}: so many are not in `numbers`, or more than {}",
                           function.number_count, WEIR_FUNCTION_NUMBERS_MAX);
    for (size_t i = 0; i < function.number_count; ++i) {
        const weir_function_number& number = function.numbers[i];
        if (name_or_null(number.name) == nullptr)
            return fmt::format("has no name for number {}", i + 1);
        if (number.zero != 0 || number.may_be_infinite > 1)
            return fmt::format("sets fields of number '{}' that this version of Weir does not know",
                               number.name);
    }
    if (function.result_count > WEIR_FUNCTION_RESULTS_MAX)
        return fmt::format("finds {} numbers; {} at most", function.result_count,
                           WEIR_FUNCTION_RESULTS_MAX);
    const uint32_t combine = function.result_combine;
    if (combine != WEIR_SUM && combine != WEIR_MAX && combine != WEIR_MIN)
        return fmt::format("has `result_combine` {}: WEIR_SUM, WEIR_MAX or WEIR_MIN", combine);
    if (!(function.cost >= 0) || std::isinf(function.cost))
        return fmt::format("has `cost` {}", function.cost);
    return {};
}

}  // namespace

Result<FunctionEntry> make_plugin_function(const weir_function& function,
                                           std::shared_ptr<void> object) {
    if (const Status known = check_struct(function, "weir_function"); !known)
        return refused_function("", known.error().text());
    const char* const name = name_or_null(function.name);
    if (name == nullptr)
        return refused_function(
            "", fmt::format("has no name: one of 1 to {} bytes, without control characters",
                            WEIR_NAME_BYTES_MAX));
    if (const std::string why = wrong_with(function); !why.empty())
        return refused_function(name, why);
    const auto its = std::make_shared<PluginFunction>();
    its->object = std::move(object);
    its->is = function;
    its->is.numbers = nullptr;
    for (size_t i = 0; i < function.number_count; ++i)
        its->names.emplace_back(function.numbers[i].name);
    FunctionEntry entry;
    entry.name = name;
    entry.version = function.version;
    entry.changes = function.result_count == 0;
    entry.tables = function.tables;
    entry.wants_keys = (function.flags & WEIR_WANTS_KEYS) != 0;
    entry.cost = function.cost == 0 ? 1 : function.cost;
    for (size_t i = 0; i < function.number_count; ++i)
        entry.numbers.push_back({its->names[i].c_str(), function.numbers[i].otherwise,
                                 function.numbers[i].may_be_infinite != 0});
    if (function.check != nullptr)
        entry.check = [its](std::span<const double> numbers) {
            return its->is.check(numbers.data(), its->is.user);
        };
    for (size_t i = 0; i < kComputedTypeCount; ++i) {
        if ((function.types & WEIR_TYPE(i)) == 0) continue;
        entry.runs[i] = [its, type = static_cast<ValueType>(i)](const FunctionRows<std::byte>& rows,
                                                                FunctionResult& result) {
            its->run(type, rows, result);
        };
    }
    if (!entry.changes) {
        entry.begin = [its](std::span<const double>, FunctionResult& result) {
            result.numbers.assign(its->is.result_count, its->first_result());
        };
        entry.merge = [its](FunctionResult& into, const FunctionResult& other,
                            std::span<const double>) { its->combine(into.numbers, other.numbers); };
    }
    entry.owner = its;
    return entry;
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "lib/store/functions/function_entry.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "lib/base/printable.h"

namespace weir {

std::string FunctionEntry::facts() const {
    std::string facts =
        fmt::format("function {} {} {} {} {}", name, version, changes ? "changes" : "reads", tables,
                    wants_keys ? "keys" : "rows");
    for (const FunctionNumber& number : numbers)
        facts += fmt::format(" {}={}", number.name, number.otherwise);
    facts += fmt::format(" {}", cost);  // by which calls are cut
    if (any_width) facts += " any width";
    return facts;
}

Result<std::vector<double>> FunctionEntry::all_numbers(std::span<const double> given) const {
    const auto wrong = [&](std::string_view why) {
        return Error(Errc::kInvalidArgument, fmt::format("function '{}': {}", name, why));
    };
    if (given.size() > numbers.size()) {
        return wrong(numbers.empty() ? std::string("it takes no numbers")
                                     : fmt::format("it takes {} number{}; got {}", numbers.size(),
                                                   numbers.size() == 1 ? "" : "s", given.size()));
    }
    std::vector<double> all(given.begin(), given.end());
    for (size_t i = 0; i < numbers.size(); ++i) {
        const FunctionNumber& number = numbers[i];
        if (i == all.size()) {
            if (std::isnan(number.otherwise))
                return wrong(fmt::format("it needs the number '{}'", number.name));
            all.push_back(number.otherwise);
        }
        const bool is_possible =
            std::isfinite(all[i]) || (number.may_be_infinite && !std::isnan(all[i]));
        if (!is_possible)
            return wrong(fmt::format("the number '{}' cannot be {}", number.name, all[i]));
    }
    const char* const why = check ? check(all) : nullptr;
    if (why != nullptr) return wrong(why);
    return all;
}

void FunctionEntry::put_together(FunctionResult& into, const FunctionResult& other,
                                 std::span<const double> given) const {
    if (merge) return merge(into, other, given);
    for (size_t i = 0; i < into.numbers.size(); ++i)
        into.numbers[i] += other.numbers[i];
}

bool FunctionEntry::may_be_result(std::span<const double> given,
                                  const FunctionResult& result) const {
    FunctionResult begun;
    begin(given, begun);
    const size_t numbers_count = result.numbers.size();
    const size_t keys_count = result.keys.size();
    if (begun.numbers.empty() && begun.keys.empty())
        return numbers_count == keys_count && keys_count <= results_of(given);
    return numbers_count == begun.numbers.size() && keys_count == begun.keys.size();
}

size_t FunctionEntry::results_of(std::span<const double> given) const {
    constexpr size_t kUsual = 512;
    constexpr size_t kMax = size_t{1} << 17;
    return results_max ? std::clamp<size_t>(results_max(given), 1, kMax) : kUsual;
}

size_t FunctionEntry::result_bytes_max(std::span<const double> given) const {
    return sizeof(uint64_t) * (2 + 2 * results_of(given));
}

uint64_t FunctionEntry::rows_max(ValueType type, uint32_t width, bool is_range) const noexcept {
    constexpr double kBytes = size_t{4} << 20;  // of a range
    constexpr double kRows = size_t{1} << 15;   // of a list

    const double of_tables = std::max(1.0, (1.0 + tables) / 2);
    const double value_cost = std::max(cost, 1.0) * of_tables;
    const double of_range =
        kBytes / static_cast<double>(size_of(computed_type(type))) / (value_cost * width);
    const double rows = is_range ? of_range : std::min(of_range, kRows / value_cost);
    return std::max<uint64_t>(1, static_cast<uint64_t>(rows));
}

Status check_function(const FunctionEntry& entry) {
    if (!is_printable_name(entry.name))
        return Error(Errc::kInvalidArgument,
                     "the name of a function is empty, or has a control character");
    const char* why = nullptr;
    if (entry.tables > kFunctionTablesMax) why = "it reads more than 4 other tables";
    if (entry.numbers.size() > kFunctionNumbersMax) why = "it takes more than 64 numbers";
    if (!(entry.cost > 0) || std::isinf(entry.cost)) why = "its cost must be a number above 0";
    if (!entry.changes && !entry.begin) why = "it neither changes rows nor begins a result";
    if (why == nullptr) return {};
    return Error(Errc::kInvalidArgument, fmt::format("function '{}': {}", entry.name, why));
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/numbers.h"

#include <charconv>
#include <cmath>
#include <optional>

#include <fmt/core.h>

namespace weir::tools {
namespace {

std::optional<double> finite(const std::string& text) {
    double value = 0;
    const char* const begin = text.data() + (text.starts_with('+') ? 1 : 0);
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (error != std::errc{} || stop != end || !std::isfinite(value)) return std::nullopt;
    return value;
}

}  // namespace

NumberCheck count(uint64_t least, uint64_t most) {
    return [=](const std::string& text) {
        uint64_t value = 0;
        const char* const end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, value);
        const bool good = error == std::errc{} && stop == end && value >= least && value <= most;
        return good ? std::string()
                    : fmt::format("{}: must be a whole number from {} to {}", text, least, most);
    };
}

NumberCheck number(double least, bool included) {
    return [=](const std::string& text) {
        const std::optional<double> value = finite(text);
        const bool good = value && (*value > least || (included && *value == least));
        return good ? std::string()
                    : fmt::format("{}: must be a finite number {} {}", text,
                                  included ? "of at least" : "above", least);
    };
}

NumberCheck number_within(double least, double most) {
    return [=](const std::string& text) {
        const std::optional<double> value = finite(text);
        const bool good = value && *value >= least && *value <= most;
        return good ? std::string()
                    : fmt::format("{}: must be a number from {} to {}", text, least, most);
    };
}

}  // namespace weir::tools

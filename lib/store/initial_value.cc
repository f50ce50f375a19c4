// SPDX-License-Identifier: Apache-2.0
/// \file
/// InitialValue: what is sound, and its text.

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/core.h>

#include "lib/store/initial_rows.h"

namespace weir {
namespace {

/// Where a normal distribution is cut, in standard deviations.
constexpr double kCut = 2;

/// What no value is greater than in size.
double most_of(const InitialValue& initial) noexcept {
    return initial.kind == InitialValue::Kind::kNormal
               ? std::abs(initial.first) + kCut * initial.second
               : std::max(std::abs(initial.first), std::abs(initial.second));
}

bool representable(double value, ValueType type) {
    const auto as_float = static_cast<float>(value);
    if (type == ValueType::kFloat32) return std::isfinite(as_float);
    if (type == ValueType::kBFloat16) return std::isfinite(static_cast<float>(BFloat16(as_float)));
    if (type == ValueType::kFloat16) return std::isfinite(static_cast<float>(Float16(as_float)));
    if (is_floating(type)) return std::isfinite(value);
    if (!(value == std::floor(value))) return false;
    return with_value_type(type, [&]<class T>() {
        // The upper bound is 2 x half, because the largest int64 is not a double.
        constexpr T kHalf = std::numeric_limits<T>::max() / 2 + 1;
        const double end = 2.0 * static_cast<double>(kHalf);
        return value >= static_cast<double>(std::numeric_limits<T>::lowest()) && value < end;
    });
}

}  // namespace

int InitialValue::exponent() const noexcept {
    int exponent = 0;
    (void)std::frexp(most_of(*this), &exponent);
    return exponent;
}

std::string to_string(const InitialValue& initial) {
    if (!initial.is_random()) return fmt::format("{}", initial.first);
    return fmt::format("{}({}, {}, seed {})",
                       initial.kind == InitialValue::Kind::kUniform ? "uniform" : "normal",
                       initial.first, initial.second, initial.seed);
}

Status check_initial(const InitialValue& initial, ValueType type) {
    const auto refused = [&](std::string_view why) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("the initial value {} {}", to_string(initial), why));
    };
    if (!std::isfinite(initial.first) || !std::isfinite(initial.second)) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("the initial value must be finite, is {}", to_string(initial)));
    }
    if (!initial.is_random()) {
        if (representable(initial.first, type)) return {};
        return refused(fmt::format("is not a value of type {}", to_string(type)));
    }
    if (!is_floating(type))
        return refused(fmt::format("is random, and not for {}; use a floating type or a constant",
                                   to_string(type)));
    if (initial.generator != InitialValue::kGenerator) {
        return refused(
            fmt::format("is of version {} of its generator, and this program has "
                        "version {}; use the version of Weir that made the table",
                        initial.generator, InitialValue::kGenerator));
    }
    if (initial.kind == InitialValue::Kind::kUniform && !(initial.first < initial.second))
        return refused("must begin with the least value, then a greater one");
    if (initial.kind == InitialValue::Kind::kNormal && !(initial.second > 0))
        return refused("must have a standard deviation above 0");
    // Units must be normal numbers of the type.
    const int least = type == ValueType::kFloat64 ? -960 : type == ValueType::kFloat16 ? -14 : -100;
    const bool fits = representable(most_of(initial), type) && initial.exponent() > least;
    if (fits) return {};
    return refused(fmt::format("reaches too far for {}, or is too close to 0", to_string(type)));
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ValueType: the type of one value of a table. The numbers travel on the wire.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "lib/base/check.h"
#include "lib/key/narrow_float.h"

namespace weir {

enum class ValueType : uint8_t {
    kFloat32 = 0,
    kFloat64 = 1,
    kInt32 = 2,
    kInt64 = 3,
    kUInt32 = 4,
    kUInt64 = 5,
    kBFloat16 = 6,
    kFloat16 = 7,
};
inline constexpr size_t kValueTypeCount = 8;
/// Those that are computed with come first. Behind them are the *narrow* ones, which values are kept as.
inline constexpr size_t kComputedTypeCount = 6;

/// What pushes bring, and rules compute with.
template <class T>
concept Value = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, int32_t> ||
    std::same_as<T, int64_t> || std::same_as<T, uint32_t> || std::same_as<T, uint64_t>;

template <class T>
concept NarrowValue = std::same_as<T, BFloat16> || std::same_as<T, Float16>;

/// What tables have.
template <class T>
concept KeptValue = Value<T> || NarrowValue<T>;

template <KeptValue T>
[[nodiscard]] constexpr ValueType value_type_of() noexcept {
    if constexpr (std::same_as<T, float>) return ValueType::kFloat32;
    if constexpr (std::same_as<T, double>) return ValueType::kFloat64;
    if constexpr (std::same_as<T, int32_t>) return ValueType::kInt32;
    if constexpr (std::same_as<T, int64_t>) return ValueType::kInt64;
    if constexpr (std::same_as<T, uint32_t>) return ValueType::kUInt32;
    if constexpr (std::same_as<T, BFloat16>) return ValueType::kBFloat16;
    if constexpr (std::same_as<T, Float16>) return ValueType::kFloat16;
    return ValueType::kUInt64;
}

[[nodiscard]] constexpr bool is_valid(ValueType type) noexcept {
    return static_cast<size_t>(type) < kValueTypeCount;
}

/// Bytes of one value; 0 for a number that is no type.
[[nodiscard]] constexpr size_t size_of(ValueType type) noexcept {
    constexpr size_t kSizes[kValueTypeCount] = {4, 8, 4, 8, 4, 8, 2, 2};
    return is_valid(type) ? kSizes[static_cast<size_t>(type)] : 0;
}

[[nodiscard]] constexpr bool is_narrow(ValueType type) noexcept {
    return type == ValueType::kBFloat16 || type == ValueType::kFloat16;
}

/// Of what is pushed to values of this type, summed, and given to rules: float for narrow ones.
[[nodiscard]] constexpr ValueType computed_type(ValueType type) noexcept {
    return is_narrow(type) ? ValueType::kFloat32 : type;
}

[[nodiscard]] constexpr bool is_floating(ValueType type) noexcept {
    return type == ValueType::kFloat32 || type == ValueType::kFloat64 || is_narrow(type);
}

[[nodiscard]] constexpr std::string_view to_string(ValueType type) noexcept {
    constexpr std::string_view kNames[kValueTypeCount] = {
        "float32", "float64", "int32", "int64", "uint32", "uint64", "bfloat16", "float16"};
    return is_valid(type) ? kNames[static_cast<size_t>(type)] : "unknown type";
}

[[nodiscard]] constexpr std::optional<ValueType> value_type_from(std::string_view name) noexcept {
    for (size_t i = 0; i < kValueTypeCount; ++i) {
        if (to_string(static_cast<ValueType>(i)) == name) return static_cast<ValueType>(i);
    }
    return std::nullopt;
}

/// Calls `function.template operator()<T>()` with the C++ type behind a valid `type` that is not narrow.
template <class Function>
decltype(auto) with_value_type(ValueType type, Function&& function) {
    WEIR_CHECK(!is_narrow(type));
    switch (type) {
        case ValueType::kFloat32: return function.template operator()<float>();
        case ValueType::kFloat64: return function.template operator()<double>();
        case ValueType::kInt32: return function.template operator()<int32_t>();
        case ValueType::kInt64: return function.template operator()<int64_t>();
        case ValueType::kUInt32: return function.template operator()<uint32_t>();
        default: break;
    }
    return function.template operator()<uint64_t>();
}

}  // namespace weir

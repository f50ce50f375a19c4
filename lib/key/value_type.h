// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ValueType: the type of one value of a table. The numbers travel on the wire.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace weir {

enum class ValueType : uint8_t {
    kFloat32 = 0,
    kFloat64 = 1,
    kInt32 = 2,
    kInt64 = 3,
    kUInt32 = 4,
    kUInt64 = 5,
};
inline constexpr size_t kValueTypeCount = 6;

template <class T>
concept Value = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, int32_t> ||
    std::same_as<T, int64_t> || std::same_as<T, uint32_t> || std::same_as<T, uint64_t>;

template <Value T>
[[nodiscard]] constexpr ValueType value_type_of() noexcept {
    if constexpr (std::same_as<T, float>) return ValueType::kFloat32;
    if constexpr (std::same_as<T, double>) return ValueType::kFloat64;
    if constexpr (std::same_as<T, int32_t>) return ValueType::kInt32;
    if constexpr (std::same_as<T, int64_t>) return ValueType::kInt64;
    if constexpr (std::same_as<T, uint32_t>) return ValueType::kUInt32;
    return ValueType::kUInt64;
}

[[nodiscard]] constexpr bool is_valid(ValueType type) noexcept {
    return static_cast<size_t>(type) < kValueTypeCount;
}

/// Bytes of one value; 0 for a number that is no type.
[[nodiscard]] constexpr size_t size_of(ValueType type) noexcept {
    constexpr size_t kSizes[kValueTypeCount] = {4, 8, 4, 8, 4, 8};
    return is_valid(type) ? kSizes[static_cast<size_t>(type)] : 0;
}

[[nodiscard]] constexpr bool is_floating(ValueType type) noexcept {
    return type == ValueType::kFloat32 || type == ValueType::kFloat64;
}

[[nodiscard]] constexpr std::string_view to_string(ValueType type) noexcept {
    constexpr std::string_view kNames[kValueTypeCount] = {"float32", "float64", "int32",
                                                          "int64",   "uint32",  "uint64"};
    return is_valid(type) ? kNames[static_cast<size_t>(type)] : "unknown type";
}

[[nodiscard]] constexpr std::optional<ValueType> value_type_from(std::string_view name) noexcept {
    for (size_t i = 0; i < kValueTypeCount; ++i) {
        if (to_string(static_cast<ValueType>(i)) == name) return static_cast<ValueType>(i);
    }
    return std::nullopt;
}

/// Calls `function.template operator()<T>()` with the C++ type behind a valid `type`.
template <class Function>
decltype(auto) with_value_type(ValueType type, Function&& function) {
    switch (type) {
        case ValueType::kFloat32: return function.template operator()<float>();
        case ValueType::kFloat64: return function.template operator()<double>();
        case ValueType::kInt32: return function.template operator()<int32_t>();
        case ValueType::kInt64: return function.template operator()<int64_t>();
        case ValueType::kUInt32: return function.template operator()<uint32_t>();
        case ValueType::kUInt64: break;
    }
    return function.template operator()<uint64_t>();
}

}  // namespace weir

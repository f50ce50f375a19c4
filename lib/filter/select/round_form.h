// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RoundForm: what floats are rounded to before they travel.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace weir {

/// Fixed point: integers of 1, 2 or 4 bytes, times a power of two that 64 of them share; or the
/// 16-bit floats of lib/key/narrow_float.h.
enum class RoundForm : uint8_t { kFixed8, kFixed16, kFixed32, kBFloat16, kFloat16 };
inline constexpr size_t kRoundFormCount = 5;

[[nodiscard]] constexpr bool is_valid(RoundForm form) noexcept {
    return static_cast<size_t>(form) < kRoundFormCount;
}

/// As options name it.
[[nodiscard]] constexpr std::string_view to_string(RoundForm form) noexcept {
    constexpr std::string_view kNames[kRoundFormCount] = {"fixed8", "fixed16", "fixed32",
                                                          "bfloat16", "float16"};
    return is_valid(form) ? kNames[static_cast<size_t>(form)] : "unknown form";
}

[[nodiscard]] constexpr std::optional<RoundForm> round_form_from(std::string_view name) noexcept {
    for (size_t i = 0; i < kRoundFormCount; ++i) {
        if (to_string(static_cast<RoundForm>(i)) == name) return static_cast<RoundForm>(i);
    }
    return std::nullopt;
}

}  // namespace weir

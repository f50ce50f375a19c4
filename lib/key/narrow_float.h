// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// BFloat16 and Float16: floats of 16 bits, as tables may keep them. They are for keeping and sending;
/// computing is done in float.

#include <bit>
#include <cstdint>

namespace weir {

/// How a float becomes a narrow value. Stochastically, it becomes one of the two closest values, the one
/// with a probability that falls with its distance; so many small steps are kept in the mean, where the
/// nearest value would always be the old one. A value that needs no rounding stays as it is.
enum class Rounding : uint8_t { kNearest = 0, kStochastic = 1 };

namespace narrow_bits {

// The conversions of one value. They have no branches, so that loops of them become vectors, and are done
// in integers, or in floats without rounding that a processor's mode could change: the same bits everywhere.
// NaN stays NaN; what is too great becomes infinite. Source: F. Giesen, float_to_half_fast3_rtne, 2016

inline constexpr uint32_t kSign = 0x8000'0000U;
inline constexpr uint32_t kInfinity = 0x7f80'0000U;
inline constexpr uint32_t kLeastNormal = 0x3880'0000U;  ///< of Float16, 2^-14
inline constexpr uint32_t kRebias = 0x3800'0000U;       ///< exponents of float and Float16
inline constexpr uint32_t kHalfInfinity = 0x7c00U;

[[nodiscard]] constexpr float widen_bfloat16(uint16_t bits) noexcept {
    return std::bit_cast<float>(uint32_t{bits} << 16);
}

/// `random`: up to 0xffff, each equally likely; 0x7fff + the last bit that stays rounds to nearest.
[[nodiscard]] constexpr uint16_t bfloat16_bits(uint32_t bits, uint32_t random) noexcept {
    const uint32_t rounded = (bits + random) >> 16;
    const uint32_t quiet = bits >> 16 | 0x40U;
    return static_cast<uint16_t>((bits & ~kSign) > kInfinity ? quiet : rounded);
}

[[nodiscard]] constexpr uint16_t to_bfloat16(float value) noexcept {
    const auto bits = std::bit_cast<uint32_t>(value);
    return bfloat16_bits(bits, 0x7fffU + (bits >> 16 & 1U));
}

[[nodiscard]] constexpr float widen_float16(uint16_t bits) noexcept {
    const uint32_t sign = (bits & 0x8000U) << 16;
    const uint32_t size = bits & 0x7fffU;
    const uint32_t normal = (size << 13) + kRebias + (size >= kHalfInfinity ? kRebias : 0);
    const float less =
        std::bit_cast<float>(kLeastNormal + (size << 13)) - std::bit_cast<float>(kLeastNormal);
    return std::bit_cast<float>(sign | (size < 0x400U ? std::bit_cast<uint32_t>(less) : normal));
}

/// From the size of a number, as a float, and what it is rounded to below and above 2^-14.
[[nodiscard]] constexpr uint16_t float16_bits(uint32_t sign, uint32_t size, uint32_t below,
                                              uint32_t above) noexcept {
    const uint32_t finite = above < kHalfInfinity ? above : kHalfInfinity;
    const uint32_t number = size < kLeastNormal ? below : finite;
    const uint32_t quiet = kHalfInfinity | 0x200U | (size >> 13 & 0x3ffU);
    return static_cast<uint16_t>(sign >> 16 | (size > kInfinity ? quiet : number));
}

[[nodiscard]] constexpr uint16_t to_float16(float value) noexcept {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = bits & kSign;
    const uint32_t size = bits ^ sign;
    constexpr float kAligned = 0.5F;  // its last bit is that of the least Float16
    const uint32_t below = std::bit_cast<uint32_t>(std::bit_cast<float>(size) + kAligned) -
                           std::bit_cast<uint32_t>(kAligned);
    const uint32_t above = (size - kRebias + 0xfffU + (size >> 13 & 1U)) >> 13;
    return float16_bits(sign, size, below, above);
}

/// `random`: up to 0x1fff, each equally likely.
[[nodiscard]] constexpr uint16_t to_float16(float value, uint32_t random) noexcept {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = bits & kSign;
    const uint32_t size = bits ^ sign;
    // Below 2^-14: so many times the least number, and what `random` is of that. All of it is exact.
    const uint32_t exponent = size >> 23;
    const uint32_t shift = exponent < 95U ? 31U : exponent < 113U ? 126U - exponent : 13U;
    const uint32_t digits = exponent < 95U ? 0U : (size & 0x7f'ffffU) | 0x80'0000U;
    const uint32_t below = (digits + (random << (shift - 13U))) >> shift;
    return float16_bits(sign, size, below, (size - kRebias + random) >> 13);
}

}  // namespace narrow_bits

/// 8 bits of exponent as a float, 8 significant bits: all of its range, to 2 to 3 digits.
struct BFloat16 {
    uint16_t bits = 0;

    constexpr BFloat16() = default;

    /// The nearest one; of two, the even one.
    constexpr explicit BFloat16(float value) noexcept : bits(narrow_bits::to_bfloat16(value)) {}

    constexpr operator float() const noexcept {  // NOLINT: implicit on purpose, it is exact
        return narrow_bits::widen_bfloat16(bits);
    }
};

/// IEEE 754 binary16: 5 bits of exponent, 11 significant bits: up to 65504, to 3 to 4 digits.
struct Float16 {
    uint16_t bits = 0;

    constexpr Float16() = default;

    /// As that of BFloat16.
    constexpr explicit Float16(float value) noexcept : bits(narrow_bits::to_float16(value)) {}

    constexpr operator float() const noexcept {  // NOLINT: implicit on purpose, it is exact
        return narrow_bits::widen_float16(bits);
    }
};

static_assert(sizeof(BFloat16) == sizeof(uint16_t) && sizeof(Float16) == sizeof(uint16_t));

}  // namespace weir

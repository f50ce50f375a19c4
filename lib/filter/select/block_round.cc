// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/block_round.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "lib/base/check.h"
#include "lib/base/kernel.h"
#include "lib/base/random.h"
#include "lib/key/narrow_values.h"

namespace weir {
namespace {

static_assert(std::endian::native == std::endian::little);

/// The integers of a form, and which scales leave their values finite.
template <class Integer>
struct Fixed;

template <>
struct Fixed<int8_t> {
    static constexpr uint32_t kDigits = 7;            ///< greatest: 2^7 - 1
    static constexpr uint32_t kFraction = 0x7e0000U;  ///< of the greatest, as a float
};

template <>
struct Fixed<int16_t> {
    static constexpr uint32_t kDigits = 15;
    static constexpr uint32_t kFraction = 0x7ffe00U;
};

template <>
struct Fixed<int32_t> {
    static constexpr uint32_t kDigits = 31;
    static constexpr uint32_t kFraction = 0x7fffffU;  ///< 2^31 - 2^7, the greatest that is a float
};

/// A scale above it times the least integer would be infinite. Values below kRoundedMax need none
/// above it.
template <class Integer>
constexpr uint32_t kExponentMax = 254 - Fixed<Integer>::kDigits;

constexpr auto kRoundedMaxBits = std::bit_cast<uint32_t>(kRoundedMax);

/// The exponent of the least scale by which numbers up to the one with these bits fit.
template <class Integer>
constexpr uint32_t exponent_for(uint32_t greatest) noexcept {
    if (greatest == 0) return 0;
    constexpr uint32_t kUp = 0x7fffffU - Fixed<Integer>::kFraction;
    const uint32_t exponent = (greatest + kUp) >> 23;
    constexpr uint32_t kLess = Fixed<Integer>::kDigits - 1;
    return exponent > kLess ? exponent - kLess : 1;
}

static_assert(exponent_for<int8_t>(kRoundedMaxBits - 1) <= kExponentMax<int8_t>);
static_assert(exponent_for<int16_t>(kRoundedMaxBits - 1) <= kExponentMax<int16_t>);
static_assert(exponent_for<int32_t>(kRoundedMaxBits - 1) <= kExponentMax<int32_t>);

float scale_of(uint32_t exponent) noexcept {
    return std::bit_cast<float>(exponent << 23);
}

/// Rounds 64 values, times `factor`, to integers times `scale`. Below 2^24 a draw decides by 24 bits
/// whether the fraction counts; numbers that are integers stay. Source of the draws: C. Wellons,
/// lowbias32, 2018; counted from the block's own 64 bits
inline void round_block(const float* __restrict values, float factor, float scale, uint64_t drawn,
                        float* __restrict rounded) noexcept {
    const auto low = static_cast<uint32_t>(drawn);
    const auto high = static_cast<uint32_t>(drawn >> 32);
    for (uint32_t i = 0; i < kRoundBlock; ++i) {
        uint32_t x = i * 0x9e37'79b9U ^ low;
        x = (x ^ x >> 16) * 0x7feb'352dU;
        x = (x ^ x >> 15 ^ high) * 0x846c'a68bU;
        x ^= x >> 16;
        const float draw = static_cast<float>(static_cast<int32_t>(x >> 8)) * 0x1p-24F;
        const float scaled = values[i] * factor;
        const auto toward_zero = static_cast<int32_t>(scaled);
        const float fraction = scaled - static_cast<float>(toward_zero);  // exact, of the same sign
        const auto up = static_cast<int32_t>(fraction > draw);
        const auto down = static_cast<int32_t>(-fraction > draw);
        // Exact: what is greater than 2^24 has no fraction.
        rounded[i] = static_cast<float>(toward_zero + up - down) * scale;
    }
}

inline uint32_t greatest_of(const float* values) noexcept {
    uint32_t greatest = 0;
    for (size_t i = 0; i < kRoundBlock; ++i)
        greatest = std::max(greatest, std::bit_cast<uint32_t>(values[i]) & 0x7fff'ffffU);
    return greatest;
}

/// Whole blocks, up to one with a value that is too great. Returns the bits of the greatest value
/// in size.
template <class Integer>
WEIR_KERNEL uint32_t round_blocks(const float* __restrict values, size_t blocks, uint64_t seed,
                                  float* __restrict rounded) noexcept {
    uint32_t greatest = 0;
    for (size_t block = 0; block < blocks; ++block) {
        const uint32_t size = greatest_of(values);
        greatest = std::max(greatest, size);
        if (size >= kRoundedMaxBits) break;  // it has no integer
        const uint32_t exponent = exponent_for<Integer>(size);
        round_block(values, scale_of(254 - exponent), scale_of(exponent),
                    mix64(seed += 0x9e37'79b9'7f4a'7c15U), rounded);
        values += kRoundBlock;
        rounded += kRoundBlock;
    }
    return greatest;
}

template <class Integer>
bool round_fixed(std::span<const float> values, uint64_t seed, std::span<float> rounded) noexcept {
    const size_t whole = values.size() / kRoundBlock;
    const size_t rest = values.size() % kRoundBlock;
    const uint64_t first = mix64(seed);
    uint32_t greatest = round_blocks<Integer>(values.data(), whole, first, rounded.data());
    if (rest != 0) {
        float last[kRoundBlock] = {};
        float last_rounded[kRoundBlock];
        std::memcpy(last, values.data() + whole * kRoundBlock, rest * sizeof(float));
        greatest = std::max(greatest, round_blocks<Integer>(last, 1, ~first, last_rounded));
        std::memcpy(rounded.data() + whole * kRoundBlock, last_rounded, rest * sizeof(float));
    }
    return greatest < kRoundedMaxBits;
}

ValueType type_of(RoundForm form) noexcept {
    return form == RoundForm::kBFloat16 ? ValueType::kBFloat16 : ValueType::kFloat16;
}

WEIR_KERNEL bool all_below(const float* values, size_t count, uint32_t limit) noexcept {
    uint32_t greatest = 0;
    for (size_t i = 0; i < count; ++i)
        greatest = std::max(greatest, std::bit_cast<uint32_t>(values[i]) & 0x7fff'ffffU);
    return greatest < limit;
}

bool round_narrow(RoundForm form, std::span<const float> values, uint64_t seed,
                  std::span<float> rounded) noexcept {
    constexpr float kFloat16Max = 65504;
    constexpr size_t kBlock = 1024;
    const float limit =
        form == RoundForm::kFloat16 ? std::nextafter(kFloat16Max, kRoundedMax) : kRoundedMax;
    if (!all_below(values.data(), values.size(), std::bit_cast<uint32_t>(limit))) return false;
    std::byte narrow[kBlock * sizeof(uint16_t)];
    uint64_t block_seed = mix64(seed);
    for (size_t first = 0; first < values.size(); first += kBlock) {
        const auto block = values.subspan(first, std::min(kBlock, values.size() - first));
        narrow_at_random(type_of(form), block, narrow, mix64(block_seed += 0x9e37'79b9'7f4a'7c15U));
        widen(type_of(form), std::span(narrow).first(block.size() * sizeof(uint16_t)),
              rounded.data() + first);
    }
    return true;
}

}  // namespace

bool round_values(RoundForm form, std::span<const float> values, uint64_t seed,
                  std::span<float> rounded) noexcept {
    WEIR_CHECK(is_valid(form) && rounded.size() == values.size());
    switch (form) {
        case RoundForm::kFixed8: return round_fixed<int8_t>(values, seed, rounded);
        case RoundForm::kFixed16: return round_fixed<int16_t>(values, seed, rounded);
        case RoundForm::kFixed32: return round_fixed<int32_t>(values, seed, rounded);
        default: break;
    }
    return round_narrow(form, values, seed, rounded);
}

}  // namespace weir

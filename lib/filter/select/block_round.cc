// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/block_round.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "lib/base/check.h"
#include "lib/base/kernel.h"
#include "lib/base/random.h"
#include "lib/key/finite.h"
#include "lib/key/narrow_values.h"

namespace weir::filter {
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

/// Rounds 64 values, times `factor`. Below 2^24 a draw decides by 24 bits whether the fraction
/// counts; numbers that are integers stay. Source of the draws: C. Wellons, lowbias32, 2018;
/// counted from the block's own 64 bits
template <class Integer>
inline void round_block(const float* __restrict values, float factor, uint64_t drawn,
                        Integer* __restrict integers) noexcept {
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
        integers[i] = static_cast<Integer>(toward_zero + up - down);
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
                                  std::byte* __restrict exponents,
                                  std::byte* __restrict bytes) noexcept {
    uint32_t greatest = 0;
    for (size_t block = 0; block < blocks; ++block, values += kRoundBlock) {
        const uint32_t size = greatest_of(values);
        greatest = std::max(greatest, size);
        if (size >= kRoundedMaxBits) break;  // it has no integer
        const uint32_t exponent = exponent_for<Integer>(size);
        exponents[block] = static_cast<std::byte>(exponent);
        Integer integers[kRoundBlock];
        round_block(values, scale_of(254 - exponent), mix64(seed += 0x9e37'79b9'7f4a'7c15U),
                    integers);
        std::memcpy(bytes + block * sizeof integers, integers, sizeof integers);
    }
    return greatest;
}

template <class Integer>
bool round_fixed(std::span<const float> values, uint64_t seed,
                 std::span<std::byte> bytes) noexcept {
    const size_t whole = values.size() / kRoundBlock;
    const size_t rest = values.size() % kRoundBlock;
    std::byte* const exponents = bytes.data();
    std::byte* const integers = exponents + whole + (rest != 0 ? 1 : 0);
    const uint64_t first = mix64(seed);
    uint32_t greatest = round_blocks<Integer>(values.data(), whole, first, exponents, integers);
    if (rest != 0) {
        float last[kRoundBlock] = {};
        std::byte last_integers[kRoundBlock * sizeof(Integer)];
        std::memcpy(last, values.data() + whole * kRoundBlock, rest * sizeof(float));
        greatest = std::max(
            greatest, round_blocks<Integer>(last, 1, ~first, exponents + whole, last_integers));
        std::memcpy(integers + whole * sizeof last_integers, last_integers, rest * sizeof(Integer));
    }
    return greatest < kRoundedMaxBits;
}

template <class Integer>
WEIR_KERNEL void unround_blocks(const std::byte* __restrict exponents,
                                const std::byte* __restrict bytes, size_t count,
                                float* __restrict values) noexcept {
    for (size_t begin = 0; begin < count; begin += kRoundBlock) {
        const size_t some = std::min(kRoundBlock, count - begin);
        const float scale = scale_of(std::to_integer<uint32_t>(exponents[begin / kRoundBlock]));
        Integer integers[kRoundBlock];
        std::memcpy(integers, bytes + begin * sizeof(Integer), some * sizeof(Integer));
        for (size_t i = 0; i < some; ++i)
            values[begin + i] = static_cast<float>(integers[i]) * scale;
    }
}

template <class Integer>
bool unround_fixed(std::span<const std::byte> bytes, std::span<float> values) noexcept {
    const size_t blocks = (values.size() + kRoundBlock - 1) / kRoundBlock;
    const auto exponents = bytes.first(blocks);
    for (const std::byte exponent : exponents) {
        if (std::to_integer<uint32_t>(exponent) > kExponentMax<Integer>) return false;
    }
    unround_blocks<Integer>(exponents.data(), bytes.data() + blocks, values.size(), values.data());
    return true;
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
                  std::span<std::byte> bytes) noexcept {
    constexpr float kFloat16Max = 65504;
    const float limit =
        form == RoundForm::kFloat16 ? std::nextafter(kFloat16Max, kRoundedMax) : kRoundedMax;
    if (!all_below(values.data(), values.size(), std::bit_cast<uint32_t>(limit))) return false;
    narrow_at_random(type_of(form), values, bytes.data(), mix64(seed));
    return true;
}

/// Bytes need not be aligned; what they become is looked at.
bool unround_narrow(RoundForm form, std::span<const std::byte> bytes,
                    std::span<float> values) noexcept {
    widen(type_of(form), bytes, values.data());
    return all_finite(values);
}

}  // namespace

bool round_values(RoundForm form, std::span<const float> values, uint64_t seed,
                  std::span<std::byte> bytes) noexcept {
    WEIR_CHECK(is_valid(form) && bytes.size() == rounded_bytes(form, values.size()));
    switch (form) {
        case RoundForm::kFixed8: return round_fixed<int8_t>(values, seed, bytes);
        case RoundForm::kFixed16: return round_fixed<int16_t>(values, seed, bytes);
        case RoundForm::kFixed32: return round_fixed<int32_t>(values, seed, bytes);
        default: break;
    }
    return round_narrow(form, values, seed, bytes);
}

bool unround_values(RoundForm form, std::span<const std::byte> bytes,
                    std::span<float> values) noexcept {
    if (!is_valid(form) || bytes.size() != rounded_bytes(form, values.size())) return false;
    switch (form) {
        case RoundForm::kFixed8: return unround_fixed<int8_t>(bytes, values);
        case RoundForm::kFixed16: return unround_fixed<int16_t>(bytes, values);
        case RoundForm::kFixed32: return unround_fixed<int32_t>(bytes, values);
        default: break;
    }
    return unround_narrow(form, bytes, values);
}

}  // namespace weir::filter

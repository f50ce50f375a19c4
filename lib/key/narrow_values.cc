// SPDX-License-Identifier: Apache-2.0
#include "lib/key/narrow_values.h"

#include <cstring>

#include "lib/base/check.h"
#include "lib/base/kernel.h"

namespace weir {
namespace {

// One loop for each type: with a choice inside, it would not become vectors.

uint16_t load(const std::byte* at) noexcept {
    uint16_t bits = 0;
    std::memcpy(&bits, at, sizeof bits);
    return bits;
}

void store(std::byte* at, uint16_t bits) noexcept {
    std::memcpy(at, &bits, sizeof bits);
}

/// 32 bits for the value of this index. Source: C. Wellons, lowbias32, 2018
uint32_t drawn(uint32_t index, uint64_t seed) noexcept {
    uint32_t x = index * 0x9e37'79b9U ^ static_cast<uint32_t>(seed);
    x = (x ^ x >> 16) * 0x7feb'352dU;
    x = (x ^ x >> 15 ^ static_cast<uint32_t>(seed >> 32)) * 0x846c'a68bU;
    return x ^ x >> 16;
}

WEIR_KERNEL void widen_bfloat16s(const std::byte* __restrict narrow, float* __restrict floats,
                                 size_t count) noexcept {
    for (size_t i = 0; i < count; ++i)
        floats[i] = narrow_bits::widen_bfloat16(load(narrow + 2 * i));
}

WEIR_KERNEL void widen_float16s(const std::byte* __restrict narrow, float* __restrict floats,
                                size_t count) noexcept {
    for (size_t i = 0; i < count; ++i)
        floats[i] = narrow_bits::widen_float16(load(narrow + 2 * i));
}

WEIR_KERNEL void to_bfloat16s(const float* __restrict floats, std::byte* __restrict narrow,
                              size_t count) noexcept {
    for (size_t i = 0; i < count; ++i)
        store(narrow + 2 * i, narrow_bits::to_bfloat16(floats[i]));
}

WEIR_KERNEL void to_float16s(const float* __restrict floats, std::byte* __restrict narrow,
                             size_t count) noexcept {
    for (size_t i = 0; i < count; ++i)
        store(narrow + 2 * i, narrow_bits::to_float16(floats[i]));
}

WEIR_KERNEL void to_bfloat16s_at_random(const float* __restrict floats,
                                        std::byte* __restrict narrow, size_t count,
                                        uint64_t seed) noexcept {
    for (size_t i = 0; i < count; ++i) {
        store(narrow + 2 * i,
              narrow_bits::bfloat16_bits(std::bit_cast<uint32_t>(floats[i]),
                                         drawn(static_cast<uint32_t>(i), seed) >> 16));
    }
}

WEIR_KERNEL void to_float16s_at_random(const float* __restrict floats, std::byte* __restrict narrow,
                                       size_t count, uint64_t seed) noexcept {
    for (size_t i = 0; i < count; ++i) {
        store(narrow + 2 * i,
              narrow_bits::to_float16(floats[i], drawn(static_cast<uint32_t>(i), seed) >> 19));
    }
}

}  // namespace

void widen(ValueType type, std::span<const std::byte> narrow, float* floats) noexcept {
    WEIR_CHECK(is_narrow(type));
    const size_t count = narrow.size() / size_of(type);
    type == ValueType::kBFloat16 ? widen_bfloat16s(narrow.data(), floats, count)
                                 : widen_float16s(narrow.data(), floats, count);
}

void narrow_to_nearest(ValueType type, std::span<const float> floats, std::byte* narrow) noexcept {
    WEIR_CHECK(is_narrow(type));
    type == ValueType::kBFloat16 ? to_bfloat16s(floats.data(), narrow, floats.size())
                                 : to_float16s(floats.data(), narrow, floats.size());
}

void narrow_at_random(ValueType type, std::span<const float> floats, std::byte* narrow,
                      uint64_t seed) noexcept {
    WEIR_CHECK(is_narrow(type));
    type == ValueType::kBFloat16
        ? to_bfloat16s_at_random(floats.data(), narrow, floats.size(), seed)
        : to_float16s_at_random(floats.data(), narrow, floats.size(), seed);
}

}  // namespace weir

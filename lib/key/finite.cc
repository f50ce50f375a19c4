// SPDX-License-Identifier: Apache-2.0
#include "lib/key/finite.h"

#include <algorithm>
#include <bit>

#include "lib/base/kernel.h"

namespace weir {
namespace {

// A value is NaN or infinite if all its exponent bits are set, whatever the sign.

WEIR_KERNEL bool block_finite(const float* values, size_t count) noexcept {
    uint32_t largest = 0;
    for (size_t i = 0; i < count; ++i)
        largest = std::max(largest, std::bit_cast<uint32_t>(values[i]) & 0x7fffffffU);
    return largest < 0x7f800000U;
}

WEIR_KERNEL bool block_finite(const double* values, size_t count) noexcept {
    constexpr uint64_t kExponent = 0x7ff0'0000'0000'0000U;
    uint64_t bad = 0;
    for (size_t i = 0; i < count; ++i)
        bad |= static_cast<uint64_t>((std::bit_cast<uint64_t>(values[i]) & kExponent) == kExponent);
    return bad == 0;
}

/// `kExponent`: its bits.
template <uint16_t kExponent>
WEIR_KERNEL bool block_finite(const uint16_t* values, size_t count) noexcept {
    uint16_t bad = 0;
    for (size_t i = 0; i < count; ++i)
        bad |= static_cast<uint16_t>((values[i] & kExponent) == kExponent);
    return bad == 0;
}

template <class T>
bool all_finite_blocks(std::span<const T> values) noexcept {
    constexpr size_t kBlock = 4096;  // bounds the work behind the first NaN
    for (size_t begin = 0; begin < values.size(); begin += kBlock) {
        const size_t count = std::min(kBlock, values.size() - begin);
        if (!block_finite(values.data() + begin, count)) return false;
    }
    return true;
}

}  // namespace

bool all_finite(std::span<const float> values) noexcept {
    return all_finite_blocks(values);
}

bool all_finite(std::span<const double> values) noexcept {
    return all_finite_blocks(values);
}

bool all_finite(ValueType type, const std::byte* values, size_t value_count) noexcept {
    if (type == ValueType::kFloat32)
        return all_finite(std::span(reinterpret_cast<const float*>(values), value_count));
    if (type == ValueType::kFloat64)
        return all_finite(std::span(reinterpret_cast<const double*>(values), value_count));
    if (type == ValueType::kBFloat16)
        return block_finite<0x7f80>(reinterpret_cast<const uint16_t*>(values), value_count);
    if (type == ValueType::kFloat16)
        return block_finite<0x7c00>(reinterpret_cast<const uint16_t*>(values), value_count);
    return true;
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/halves.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "lib/base/check.h"
#include "lib/key/narrow_values.h"

namespace weir {
namespace {

constexpr size_t kBlockValues = 256;

}  // namespace

bool encode_halves(ValueType type, std::span<const std::byte> values,
                   std::span<std::byte> body) noexcept {
    WEIR_CHECK(is_narrow(type) && body.size() * 2 == values.size());
    std::array<float, kBlockValues> floats;
    std::array<float, kBlockValues> back;
    const size_t count = values.size() / sizeof(float);
    for (size_t first = 0; first < count; first += kBlockValues) {
        const size_t some = std::min(kBlockValues, count - first);
        std::byte* const halves = body.data() + first * sizeof(uint16_t);
        std::memcpy(floats.data(), values.data() + first * sizeof(float), some * sizeof(float));
        narrow_to_nearest(type, std::span(floats).first(some), halves);
        widen(type, {halves, some * sizeof(uint16_t)}, back.data());
        if (std::memcmp(floats.data(), back.data(), some * sizeof(float)) != 0) return false;
    }
    return true;
}

void decode_halves(ValueType type, std::span<const std::byte> body,
                   std::span<std::byte> values) noexcept {
    WEIR_CHECK(is_narrow(type) && body.size() * 2 == values.size());
    std::array<float, kBlockValues> floats;
    const size_t count = values.size() / sizeof(float);
    for (size_t first = 0; first < count; first += kBlockValues) {
        const size_t some = std::min(kBlockValues, count - first);
        widen(type, body.subspan(first * sizeof(uint16_t), some * sizeof(uint16_t)), floats.data());
        std::memcpy(values.data() + first * sizeof(float), floats.data(), some * sizeof(float));
    }
}

}  // namespace weir

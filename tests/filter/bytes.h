// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Bytes for tests of codecs, each in memory of its own, so that a sanitizer sees what is touched
/// outside; and the kinds of Simd that this processor has.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "lib/base/random.h"
#include "lib/filter/bitmap.h"
#include "lib/filter/simd.h"

namespace weir::testing {

using Bytes = std::vector<std::byte>;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
    Bytes bytes(values.size() * sizeof(T));
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

template <class T>
std::vector<T> values_of(std::span<const std::byte> bytes) {
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

inline std::vector<Simd> all_simd() {
    std::vector<Simd> all;
    for (const Simd simd : {Simd::kPortable, Simd::kAvx2, Simd::kAvx512}) {
        if (is_supported(simd)) all.push_back(simd);
    }
    return all;
}

/// So many values, of which each is not zero with this chance in percent. A value may have one bit
/// set only, the top one too.
inline Bytes sparse_values(Random& random, size_t count, size_t value_bytes, uint64_t percent) {
    Bytes values(count * value_bytes);
    for (size_t i = 0; i < count; ++i) {
        if (random.below(100) >= percent) continue;
        const uint64_t bits =
            random.below(2) == 0 ? random() | 1 : uint64_t{1} << (8 * value_bytes - 1);
        std::memcpy(&values[i * value_bytes], &bits, value_bytes);
    }
    return values;
}

inline Bytes random_bytes(Random& random, size_t size) {
    Bytes bytes(size);
    for (std::byte& byte : bytes)
        byte = static_cast<std::byte>(random());
    return bytes;
}

inline Bytes random_bitmap(Random& random, size_t count, uint64_t percent) {
    Bytes bitmap(bitmap_bytes(count));
    for (size_t i = 0; i < count; ++i) {
        if (random.below(100) < percent) bitmap[i / 8] |= std::byte{1} << (i % 8);
    }
    return bitmap;
}

inline bool bit_of(const Bytes& bitmap, size_t i) {
    return (bitmap[i / 8] >> (i % 8) & std::byte{1}) != std::byte{0};
}

/// Counts around the sizes of steps, and the percentages that matter.
inline constexpr size_t kCounts[] = {0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 128, 1000, 1003};
inline constexpr uint64_t kPercents[] = {0, 1, 10, 50, 99, 100};

}  // namespace weir::testing

// SPDX-License-Identifier: Apache-2.0
#include "bench/micro/filter_limits.h"

#include <bit>

#include "lib/base/kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weir::bench {
namespace {

#if defined(__x86_64__)
#define WEIR_BARE __attribute__((target("avx512f,avx512bw,popcnt")))

bool has_avx512() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
}

WEIR_BARE size_t pack_avx512(const float* values, size_t count, uint64_t* bitmap, float* packed) {
    auto* const bits = reinterpret_cast<uint16_t*>(bitmap);
    size_t used = 0;
    for (size_t i = 0; i < count; i += 16) {
        const __m512i line = _mm512_loadu_si512(values + i);
        const __mmask16 mask = _mm512_test_epi32_mask(line, line);
        bits[i / 16] = mask;
        _mm512_storeu_si512(packed + used, _mm512_maskz_compress_epi32(mask, line));
        used += std::popcount(mask);
    }
    return used;
}

WEIR_BARE size_t choose_avx512(const float* values, size_t count, const uint64_t* bitmap,
                               float* packed) {
    const auto* const bits = reinterpret_cast<const uint16_t*>(bitmap);
    size_t used = 0;
    for (size_t i = 0; i < count; i += 16) {
        const __m512i line = _mm512_loadu_si512(values + i);
        _mm512_storeu_si512(packed + used, _mm512_maskz_compress_epi32(bits[i / 16], line));
        used += std::popcount(bits[i / 16]);
    }
    return used;
}

WEIR_BARE void expand_avx512(const uint64_t* bitmap, const float* packed, size_t count,
                             float* values) {
    const auto* const bits = reinterpret_cast<const uint16_t*>(bitmap);
    for (size_t i = 0; i < count; i += 16) {
        const __m512i line = _mm512_loadu_si512(packed);
        _mm512_storeu_si512(values + i, _mm512_maskz_expand_epi32(bits[i / 16], line));
        packed += std::popcount(bits[i / 16]);
    }
}

WEIR_BARE size_t list_avx512(const uint64_t* bitmap, size_t count, uint32_t* indices) {
    const auto* const bits = reinterpret_cast<const uint16_t*>(bitmap);
    __m512i index = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    size_t used = 0;
    for (size_t i = 0; i < count; i += 16) {
        _mm512_storeu_si512(indices + used, _mm512_maskz_compress_epi32(bits[i / 16], index));
        index = _mm512_add_epi32(index, _mm512_set1_epi32(16));
        used += std::popcount(bits[i / 16]);
    }
    return used;
}
#endif

}  // namespace

// Without AVX-512: a walk over the bits, without branches where that is possible.

size_t bare_pack(const float* values, size_t count, uint64_t* bitmap, float* packed) {
#if defined(__x86_64__)
    if (has_avx512()) return pack_avx512(values, count, bitmap, packed);
#endif
    size_t used = 0;
    for (size_t first = 0; first < count; first += 64) {
        uint64_t word = 0;
        for (size_t i = 0; i < 64; ++i) {
            const uint64_t bit = std::bit_cast<uint32_t>(values[first + i]) != 0 ? 1 : 0;
            packed[used] = values[first + i];
            used += bit;
            word |= bit << i;
        }
        bitmap[first / 64] = word;
    }
    return used;
}

size_t bare_choose(const float* values, size_t count, const uint64_t* bitmap, float* packed) {
#if defined(__x86_64__)
    if (has_avx512()) return choose_avx512(values, count, bitmap, packed);
#endif
    size_t used = 0;
    for (size_t i = 0; i < count; ++i) {
        packed[used] = values[i];
        used += bitmap[i / 64] >> (i % 64) & 1;
    }
    return used;
}

void bare_expand(const uint64_t* bitmap, const float* packed, size_t count, float* values) {
#if defined(__x86_64__)
    if (has_avx512()) {
        expand_avx512(bitmap, packed, count, values);
        return;
    }
#endif
    for (size_t i = 0; i < count; ++i) {
        const uint64_t bit = bitmap[i / 64] >> (i % 64) & 1;
        values[i] = bit != 0 ? *packed : 0;
        packed += bit;
    }
}

size_t bare_list(const uint64_t* bitmap, size_t count, uint32_t* indices) {
#if defined(__x86_64__)
    if (has_avx512()) return list_avx512(bitmap, count, indices);
#endif
    size_t used = 0;
    for (size_t i = 0; i < count; ++i) {
        indices[used] = static_cast<uint32_t>(i);
        used += bitmap[i / 64] >> (i % 64) & 1;
    }
    return used;
}

WEIR_KERNEL void bare_narrow(const float* values, size_t count, uint16_t* narrow) {
    for (size_t i = 0; i < count; ++i)
        narrow[i] = static_cast<uint16_t>(static_cast<int32_t>(values[i]));
}

WEIR_KERNEL void bare_widen(const uint16_t* narrow, size_t count, float* values) {
    for (size_t i = 0; i < count; ++i)
        values[i] = static_cast<float>(static_cast<int32_t>(narrow[i]));
}

WEIR_KERNEL void bare_differences(const uint64_t* keys, size_t count, uint16_t* differences) {
    differences[0] = static_cast<uint16_t>(keys[0]);
    for (size_t i = 1; i < count; ++i)
        differences[i] = static_cast<uint16_t>(keys[i] - keys[i - 1]);
}

void bare_sums(const uint16_t* differences, size_t count, uint64_t* keys) {
    uint64_t key = 0;
    for (size_t i = 0; i < count; ++i)
        keys[i] = key += differences[i];
}

WEIR_KERNEL void bare_multiply(const float* left, const float* __restrict right, size_t rows,
                               size_t width, float* __restrict product) {
    for (size_t r = 0; r < rows; ++r, left += kBareRank, product += width) {
        for (size_t c = 0; c < width; ++c) {
            float sum = 0;
            for (size_t k = 0; k < kBareRank; ++k)
                sum += left[k] * right[k * width + c];
            product[c] = sum;
        }
    }
}

}  // namespace weir::bench

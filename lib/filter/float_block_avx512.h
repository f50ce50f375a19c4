// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What FloatBlock<float>::encode() does with most blocks, and packing what it makes, with AVX-512: all
/// stays in registers.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lib/filter/float_block.h"
#include "lib/filter/integer_block.h"
#include "lib/filter/simd.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace weir::integers {

/// GCC 12 warns of functions without a mask.
inline constexpr __mmask16 kAll16 = 0xffff;

/// In each lane of twice so many bits, the number of `bits` bits of its upper half behind that of its
/// lower one.
__attribute__((target(WEIR_TARGET_AVX512))) inline __m512i join_halves_16(__m512i lanes,
                                                                          uint32_t bits) noexcept {
    const __m512i low = _mm512_and_si512(lanes, _mm512_set1_epi16(0xff));
    const __m512i high = _mm512_srli_epi16(lanes, 8);
    return _mm512_or_si512(low, _mm512_sll_epi16(high, _mm_cvtsi32_si128(static_cast<int>(bits))));
}

__attribute__((target(WEIR_TARGET_AVX512))) inline __m512i join_halves_32(__m512i lanes,
                                                                          uint32_t bits) noexcept {
    const __m512i low = _mm512_and_si512(lanes, _mm512_set1_epi32(0xffff));
    const __m512i high = _mm512_maskz_srli_epi32(kAll16, lanes, 16);
    const __m128i by = _mm_cvtsi32_si128(static_cast<int>(bits));
    return _mm512_or_si512(low, _mm512_maskz_sll_epi32(kAll16, high, by));
}

__attribute__((target(WEIR_TARGET_AVX512))) inline __m512i join_halves_64(__m512i lanes,
                                                                          uint32_t bits) noexcept {
    const __m512i low = _mm512_and_si512(lanes, _mm512_set1_epi64(0xffff'ffff));
    const __m512i high = _mm512_maskz_srli_epi64(0xff, lanes, 32);
    const __m128i by = _mm_cvtsi32_si128(static_cast<int>(bits));
    return _mm512_or_si512(low, _mm512_maskz_sll_epi64(0xff, high, by));
}

__attribute__((target(WEIR_TARGET_AVX512))) inline __m512i joined_256(__m256i low,
                                                                      __m256i high) noexcept {
    return _mm512_maskz_inserti64x4(0xff, _mm512_castsi256_si512(low), high, 1);
}

template <int kHalf>
__attribute__((target(WEIR_TARGET_AVX512))) inline __m256i half_of(__m512i lanes) noexcept {
    return _mm512_maskz_extracti64x4_epi64(0xff, lanes, kHalf);
}

/// Of signed numbers. GCC 12 warns of its own.
struct Reduced {
    int low;
    int high;
    uint32_t any;
};

__attribute__((target(WEIR_TARGET_AVX512))) inline Reduced reduce(__m512i lows, __m512i highs,
                                                                  __m512i any) noexcept {
    const __m256i low_8 = _mm256_min_epi32(half_of<0>(lows), half_of<1>(lows));
    const __m256i high_8 = _mm256_max_epi32(half_of<0>(highs), half_of<1>(highs));
    const __m256i any_8 = _mm256_or_si256(half_of<0>(any), half_of<1>(any));
    __m128i low = _mm_min_epi32(_mm256_castsi256_si128(low_8), _mm256_extracti128_si256(low_8, 1));
    __m128i high =
        _mm_max_epi32(_mm256_castsi256_si128(high_8), _mm256_extracti128_si256(high_8, 1));
    __m128i bits = _mm_or_si128(_mm256_castsi256_si128(any_8), _mm256_extracti128_si256(any_8, 1));
    low = _mm_min_epi32(low, _mm_shuffle_epi32(low, 0x4e));
    high = _mm_max_epi32(high, _mm_shuffle_epi32(high, 0x4e));
    bits = _mm_or_si128(bits, _mm_shuffle_epi32(bits, 0x4e));
    low = _mm_min_epi32(low, _mm_shuffle_epi32(low, 0xb1));
    high = _mm_max_epi32(high, _mm_shuffle_epi32(high, 0xb1));
    bits = _mm_or_si128(bits, _mm_shuffle_epi32(bits, 0xb1));
    return {_mm_cvtsi128_si32(low), _mm_cvtsi128_si32(high),
            static_cast<uint32_t>(_mm_cvtsi128_si32(bits))};
}

/// As pack_offsets().
__attribute__((target(WEIR_TARGET_AVX512))) inline void pack_avx512(const __m512i* offsets,
                                                                    uint32_t bits,
                                                                    std::byte* to) noexcept {
    if (bits == 0) return;
    uint64_t words[kIntegerBlock / 2];
    if (bits > 16) {
        for (size_t i = 0; i < 4; ++i)
            _mm512_storeu_si512(words + 8 * i, join_halves_64(offsets[i], bits));
        put_words(words, 32, 2 * bits, to);
        return;
    }
    __m256i shorts[4];
    for (size_t i = 0; i < 4; ++i)
        shorts[i] = _mm512_maskz_cvtepi32_epi16(kAll16, offsets[i]);
    __m512i halves[2] = {joined_256(shorts[0], shorts[1]), joined_256(shorts[2], shorts[3])};
    if (bits == 16) {
        _mm512_storeu_si512(to, halves[0]);
        _mm512_storeu_si512(to + 64, halves[1]);
        return;
    }
    if (bits > 8) {
        for (size_t i = 0; i < 2; ++i) {
            const __m512i pairs = join_halves_32(halves[i], bits);
            _mm512_storeu_si512(words + 8 * i, join_halves_64(pairs, 2 * bits));
        }
        put_words(words, 16, 4 * bits, to);
        return;
    }
    __m512i bytes = joined_256(_mm512_maskz_cvtepi16_epi8(~__mmask32{0}, halves[0]),
                               _mm512_maskz_cvtepi16_epi8(~__mmask32{0}, halves[1]));
    if (bits < 8) {
        bytes = join_halves_64(join_halves_32(join_halves_16(bytes, bits), 2 * bits), 4 * bits);
        _mm512_storeu_si512(words, bytes);
        for (size_t i = 0; i < 8; ++i)  // words of whole bytes
            std::memcpy(to + i * bits, words + i, sizeof words[i]);
        return;
    }
    _mm512_storeu_si512(to, bytes);
}

/// Encodes 64 floats as `block` would. Returns the end of what it wrote; nullptr: it is for the block
/// to look at them. Shape: `to` has room for a head and kOffsetsRoom
__attribute__((target(WEIR_TARGET_AVX512))) inline std::byte* encode_floats_avx512(
    FloatBlock<float>& block, const std::byte* values, std::byte* to) noexcept {
    using Block = FloatBlock<float>;
    const __m512 unit = _mm512_set1_ps(Block::power(block.from));
    const __m512 factor = _mm512_set1_ps(Block::power(-block.from));
    __m512i integers[4];
    __m512i wrong = _mm512_setzero_si512();
    for (size_t i = 0; i < 4; ++i) {
        const __m512 line = _mm512_loadu_ps(values + 64 * i);
        // What is too great becomes -2^31, which set_head() refuses.
        integers[i] = _mm512_maskz_cvttps_epi32(kAll16, _mm512_mul_ps(line, factor));
        const __m512 back = _mm512_mul_ps(_mm512_maskz_cvtepi32_ps(kAll16, integers[i]), unit);
        const __m512i differs =
            _mm512_xor_si512(_mm512_castps_si512(back), _mm512_castps_si512(line));
        wrong = _mm512_or_si512(wrong, differs);
    }
    const __m512i lows =
        _mm512_maskz_min_epi32(kAll16, _mm512_maskz_min_epi32(kAll16, integers[0], integers[1]),
                               _mm512_maskz_min_epi32(kAll16, integers[2], integers[3]));
    const __m512i highs =
        _mm512_maskz_max_epi32(kAll16, _mm512_maskz_max_epi32(kAll16, integers[0], integers[1]),
                               _mm512_maskz_max_epi32(kAll16, integers[2], integers[3]));
    const __m512i any = _mm512_or_si512(_mm512_or_si512(integers[0], integers[1]),
                                        _mm512_or_si512(integers[2], integers[3]));
    const Reduced all = reduce(lows, highs, any);
    Head<uint32_t> head;
    if (_mm512_test_epi32_mask(wrong, wrong) != 0 ||
        !block.set_head(all.low, all.high, all.any, head))
        return nullptr;
    const __m128i zeros = _mm_cvtsi32_si128(std::countr_zero(all.any | 1U << 31));
    const __m512i reference = _mm512_set1_epi32(all.low);
    for (__m512i& each : integers)
        each = _mm512_maskz_srl_epi32(kAll16, _mm512_sub_epi32(each, reference), zeros);
    head.write(to);
    to += Head<uint32_t>::kBytes;
    pack_avx512(integers, head.bits, to);
    return to + offsets_bytes(head.bits, kIntegerBlock);
}

}  // namespace weir::integers
#endif

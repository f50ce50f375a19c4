// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The steps of pack_lanes.h with AVX-512: 64 bytes at once. They are compressed in a register and
/// stored whole: several processors take many times as long to compress into memory.

#if defined(__x86_64__)
#include <cstddef>
#include <cstdint>

#include <immintrin.h>

#include "lib/filter/simd.h"

namespace weir::lanes {

#define WEIR_AVX512 __attribute__((target(WEIR_TARGET_AVX512))) static inline

template <size_t kBytes>
struct Avx512 {
    static constexpr size_t kLanes = 64 / kBytes;

    WEIR_AVX512 uint64_t nonzeros(const std::byte* values) noexcept {
        const __m512i line = _mm512_loadu_si512(values);
        if constexpr (kBytes == 1) return _mm512_test_epi8_mask(line, line);
        if constexpr (kBytes == 2) return _mm512_test_epi16_mask(line, line);
        if constexpr (kBytes == 4) return _mm512_test_epi32_mask(line, line);
        return _mm512_test_epi64_mask(line, line);
    }

    WEIR_AVX512 void pack(const std::byte* values, uint64_t mask, std::byte* packed) noexcept {
        const __m512i line = _mm512_loadu_si512(values);
        __m512i out;
        if constexpr (kBytes == 1)
            out = _mm512_maskz_compress_epi8(static_cast<__mmask64>(mask), line);
        else if constexpr (kBytes == 2)
            out = _mm512_maskz_compress_epi16(static_cast<__mmask32>(mask), line);
        else if constexpr (kBytes == 4)
            out = _mm512_maskz_compress_epi32(static_cast<__mmask16>(mask), line);
        else
            out = _mm512_maskz_compress_epi64(static_cast<__mmask8>(mask), line);
        _mm512_storeu_si512(packed, out);
    }

    WEIR_AVX512 void expand(const std::byte* packed, uint64_t mask, std::byte* values) noexcept {
        const __m512i line = _mm512_loadu_si512(packed);
        __m512i out;
        if constexpr (kBytes == 1)
            out = _mm512_maskz_expand_epi8(static_cast<__mmask64>(mask), line);
        else if constexpr (kBytes == 2)
            out = _mm512_maskz_expand_epi16(static_cast<__mmask32>(mask), line);
        else if constexpr (kBytes == 4)
            out = _mm512_maskz_expand_epi32(static_cast<__mmask16>(mask), line);
        else
            out = _mm512_maskz_expand_epi64(static_cast<__mmask8>(mask), line);
        _mm512_storeu_si512(values, out);
    }
};

#undef WEIR_AVX512

}  // namespace weir::lanes
#endif

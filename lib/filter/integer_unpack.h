// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// unpack: reads the offsets of a block of the codec integers, with AVX-512 eight at once: a shuffle
/// brings the eight bytes that each of them lies in into its lane, which is then shifted.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lib/filter/integer_block.h"
#include "lib/filter/simd.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weir::integers {

#if defined(__x86_64__)
/// For each number of bits: which bytes go into the lanes, and by how much these are shifted. Eight
/// offsets of so many bits begin at a byte, and have so many bytes.
struct Shuffles {
    alignas(64) uint8_t bytes[kBitsMax + 1][64] = {};
    alignas(64) uint64_t shifts[kBitsMax + 1][8] = {};

    constexpr Shuffles() {
        for (uint32_t bits = 0; bits <= kBitsMax; ++bits) {
            for (uint32_t lane = 0; lane < 8; ++lane) {
                for (uint32_t i = 0; i < 8; ++i)
                    bytes[bits][8 * lane + i] = static_cast<uint8_t>(lane * bits / 8 + i);
                shifts[bits][lane] = lane * bits % 8;
            }
        }
    }
};

inline constexpr Shuffles kShuffles;

/// 64 bytes are read from where each eight offsets begin.
static_assert(7 * kBitsMax + 64 <= kOffsetsRoom);

__attribute__((target(WEIR_TARGET_AVX512))) inline __m512i eight_offsets(const std::byte* from,
                                                                         __m512i bytes,
                                                                         __m512i shifts,
                                                                         __m512i mask) noexcept {
    constexpr __mmask8 kAllLanes = 0xff;  // GCC 12 warns of those without a mask
    const __m512i line =
        _mm512_maskz_permutexvar_epi8(~__mmask64{0}, bytes, _mm512_loadu_si512(from));
    return _mm512_and_si512(_mm512_maskz_srlv_epi64(kAllLanes, line, shifts), mask);
}

__attribute__((target(WEIR_TARGET_AVX512))) inline __m256i narrowed(__m512i offsets) noexcept {
    constexpr __mmask8 kAllLanes = 0xff;
    return _mm512_maskz_cvtepi64_epi32(kAllLanes, offsets);
}

template <class U>
__attribute__((target(WEIR_TARGET_AVX512))) inline void unpack_avx512(const std::byte* from,
                                                                      uint32_t bits,
                                                                      U* offsets) noexcept {
    const __m512i bytes = _mm512_load_si512(kShuffles.bytes[bits]);
    const __m512i shifts = _mm512_load_si512(kShuffles.shifts[bits]);
    const __m512i mask = _mm512_set1_epi64(static_cast<int64_t>((uint64_t{1} << bits) - 1));
    for (size_t i = 0; i < kIntegerBlock; i += 16, from += size_t{2} * bits) {
        const __m512i low = eight_offsets(from, bytes, shifts, mask);
        const __m512i high = eight_offsets(from + bits, bytes, shifts, mask);
        if constexpr (sizeof(U) == 8) {
            _mm512_storeu_si512(offsets + i, low);
            _mm512_storeu_si512(offsets + i + 8, high);
        } else {  // whole, as they will be read: what was stored in two is not forwarded to a load
            const __m512i both = _mm512_castsi256_si512(narrowed(low));
            _mm512_storeu_si512(offsets + i,
                                _mm512_maskz_inserti64x4(0xff, both, narrowed(high), 1));
        }
    }
}
#endif

/// Reads 64 offsets. Shape: `from` has kOffsetsRoom bytes
template <class U>
WEIR_INLINE void unpack(const std::byte* from, uint32_t bits, U* offsets, Simd simd) noexcept {
#if defined(__x86_64__)
    if (simd == Simd::kAvx512) {
        unpack_avx512(from, bits, offsets);
        return;
    }
#endif
    (void)simd;
    unpack_offsets(from, bits, offsets);
}

}  // namespace weir::integers

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The steps of pack_lanes.h with AVX2: eight values at once, in the order that a table has for
/// each set of eight.

#if defined(__x86_64__)
#include <bit>
#include <cstddef>
#include <cstdint>

#include <immintrin.h>

#include "lib/filter/simd.h"

namespace weir::lanes {

/// For each set of eight lanes: which lane goes to each place when they are packed, and which place
/// goes to each lane when they are expanded. A lane that is not in the set has kNone.
struct Orders {
    static constexpr uint8_t kNone = 0x80;  // a byte shuffle makes zeros of it

    alignas(64) uint8_t pack[256][8] = {};
    alignas(64) uint8_t expand[256][8] = {};

    constexpr Orders() {
        for (uint32_t set = 0; set < 256; ++set) {
            uint8_t place = 0;
            for (uint8_t lane = 0; lane < 8; ++lane) {
                const bool is_in = (set >> lane & 1) != 0;
                expand[set][lane] = is_in ? place : kNone;
                if (is_in) pack[set][place++] = lane;
            }
        }
    }
};

inline constexpr Orders kOrders;

#define WEIR_AVX2 __attribute__((target(WEIR_TARGET_AVX2))) static inline

template <size_t kBytes>
struct Avx2 {
    static constexpr size_t kLanes = 8;

    WEIR_AVX2 uint64_t nonzeros(const std::byte* values) noexcept {
        const __m128i none = _mm_setzero_si128();
        uint32_t zeros = 0;
        if constexpr (kBytes == 1) {
            zeros = static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(load8(values), none)));
        } else if constexpr (kBytes == 2) {
            const __m128i equal = _mm_cmpeq_epi16(load16(values), none);
            zeros = static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(equal, none)));
        } else if constexpr (kBytes == 4) {
            const __m256i equal = _mm256_cmpeq_epi32(load32(values), _mm256_setzero_si256());
            zeros = static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(equal)));
        } else {
            zeros = zeros_of_four(values) | zeros_of_four(values + 32) << 4;
        }
        return ~zeros & 0xffU;
    }

    WEIR_AVX2 void pack(const std::byte* values, uint64_t mask, std::byte* packed) noexcept {
        const __m128i order = load8(kOrders.pack[mask]);
        if constexpr (kBytes == 1) {
            store8(packed, _mm_shuffle_epi8(load8(values), order));
        } else if constexpr (kBytes == 2) {
            store16(packed, _mm_shuffle_epi8(load16(values), bytes_of_pairs(order)));
        } else if constexpr (kBytes == 4) {
            store32(packed,
                    _mm256_permutevar8x32_epi32(load32(values), _mm256_cvtepu8_epi32(order)));
        } else {
            pack_four(values, mask & 15, packed);
            pack_four(values + 32, mask >> 4, packed + size_t{8} * pop(mask & 15));
        }
    }

    WEIR_AVX2 void expand(const std::byte* packed, uint64_t mask, std::byte* values) noexcept {
        const __m128i order = load8(kOrders.expand[mask]);
        if constexpr (kBytes == 1) {
            store8(values, _mm_shuffle_epi8(load8(packed), order));
        } else if constexpr (kBytes == 2) {
            store16(values, _mm_shuffle_epi8(load16(packed), bytes_of_pairs(order)));
        } else if constexpr (kBytes == 4) {
            store32(values, expanded(load32(packed), _mm256_cvtepi8_epi32(order)));
        } else {
            expand_four(packed, mask & 15, values);
            expand_four(packed + size_t{8} * pop(mask & 15), mask >> 4, values + 32);
        }
    }

private:
    WEIR_AVX2 __m128i load8(const void* from) noexcept {
        return _mm_loadl_epi64(static_cast<const __m128i*>(from));
    }

    WEIR_AVX2 __m128i load16(const void* from) noexcept {
        return _mm_loadu_si128(static_cast<const __m128i*>(from));
    }

    WEIR_AVX2 __m256i load32(const void* from) noexcept {
        return _mm256_loadu_si256(static_cast<const __m256i*>(from));
    }

    WEIR_AVX2 void store8(void* to, __m128i line) noexcept {
        _mm_storel_epi64(static_cast<__m128i*>(to), line);
    }

    WEIR_AVX2 void store16(void* to, __m128i line) noexcept {
        _mm_storeu_si128(static_cast<__m128i*>(to), line);
    }

    WEIR_AVX2 void store32(void* to, __m256i line) noexcept {
        _mm256_storeu_si256(static_cast<__m256i*>(to), line);
    }

    WEIR_AVX2 uint32_t pop(uint64_t mask) noexcept {
        return static_cast<uint32_t>(std::popcount(mask));
    }

    /// The two bytes of each of these lanes; kNone stays above 127.
    WEIR_AVX2 __m128i bytes_of_pairs(__m128i order) noexcept {
        const __m128i none = _mm_and_si128(order, _mm_set1_epi8(static_cast<char>(Orders::kNone)));
        const __m128i first = _mm_or_si128(_mm_add_epi8(order, order), none);
        return _mm_unpacklo_epi8(first, _mm_or_si128(first, _mm_set1_epi8(1)));
    }

    /// The 32-bit words of `line` in this order, and zero where it is negative.
    WEIR_AVX2 __m256i expanded(__m256i line, __m256i order) noexcept {
        return _mm256_andnot_si256(_mm256_srai_epi32(order, 31),
                                   _mm256_permutevar8x32_epi32(line, order));
    }

    WEIR_AVX2 uint32_t zeros_of_four(const std::byte* values) noexcept {
        const __m256i equal = _mm256_cmpeq_epi64(load32(values), _mm256_setzero_si256());
        return static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(equal)));
    }

    WEIR_AVX2 void pack_four(const std::byte* values, uint64_t mask, std::byte* packed) noexcept {
        const __m128i words = bytes_of_pairs(load8(kOrders.pack[mask]));
        store32(packed, _mm256_permutevar8x32_epi32(load32(values), _mm256_cvtepu8_epi32(words)));
    }

    WEIR_AVX2 void expand_four(const std::byte* packed, uint64_t mask, std::byte* values) noexcept {
        const __m128i words = bytes_of_pairs(load8(kOrders.expand[mask]));
        store32(values, expanded(load32(packed), _mm256_cvtepi8_epi32(words)));
    }
};

#undef WEIR_AVX2

}  // namespace weir::lanes
#endif

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// KeyBucket: one cache line of a KeyIndex, and the ways to find a key in it and to put one there.

#include <cstddef>
#include <cstdint>

#include "lib/base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weir {

/// Five keys with their rows. A full bucket overflows into the next one.
struct alignas(64) KeyBucket {
    static constexpr size_t kKeys = 5;

    uint64_t keys[kKeys];
    uint32_t rows_plus_one[kKeys];  ///< 0: free; filled from the front
    uint16_t used;                  ///< places that are not free
    uint16_t overflowed;            ///< 1 if keys of this bucket are in the next one
};

static_assert(sizeof(KeyBucket) == 64);

inline void put_into(KeyBucket& bucket, uint64_t key, uint32_t row_plus_one) noexcept {
    bucket.keys[bucket.used] = key;
    bucket.rows_plus_one[bucket.used] = row_plus_one;
    ++bucket.used;
}

/// Puts the key into the first bucket with room, from bucket `at` on.
inline void put_behind(KeyBucket* buckets, size_t mask, size_t at, uint64_t key,
                       uint32_t row_plus_one) noexcept {
    KeyBucket* bucket = &buckets[at & mask];
    for (size_t passed = 0; bucket->used == KeyBucket::kKeys; ++passed)
        [[unlikely]] {
            WEIR_CHECK(passed <= mask);
            bucket->overflowed = 1;
            bucket = &buckets[++at & mask];
        }
    put_into(*bucket, key, row_plus_one);
}

/// Every bit of the key affects the leading bits of the hash. Up to the last step, different keys
/// stay different. Then the product with an odd random number gives two of them the same leading
/// bits with at most twice the chance of a fair draw.
/// Source: Dietzfelbinger, Hagerup, Katajainen, Penttonen, J. Algorithms 25, 1997
struct KeyHash {
    static constexpr uint64_t kMix = 0x9e3779b97f4a7c15ULL;

    uint64_t mask;
    uint64_t multiplier;  ///< odd

    uint64_t operator()(uint64_t key) const noexcept {
        key = (key ^ mask) * kMix;
        key ^= key >> 32;
        return key * multiplier;
    }
};

/// How the keys of a bucket are compared with the key that is looked up.
enum class KeyCompare : uint8_t { kPortable, kAvx2, kAvx512 };

/// The fastest one that this processor supports.
[[nodiscard]] inline KeyCompare best_key_compare() noexcept {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        return KeyCompare::kAvx512;
    if (__builtin_cpu_supports("avx2")) return KeyCompare::kAvx2;
#endif
    return KeyCompare::kPortable;
}

// Each returns a mask: one bit for each place of the bucket that holds `key`. A free place looks
// like key 0.

struct MatchPortable {
    uint32_t operator()(const KeyBucket& bucket, uint64_t key) const noexcept {
        uint32_t match = 0;  // without branches, which would be mispredicted
        for (uint32_t place = 0; place < KeyBucket::kKeys; ++place)
            match |= static_cast<uint32_t>(bucket.keys[place] == key) << place;
        return match;
    }
};

#if defined(__x86_64__)
struct MatchAvx2 {
    __attribute__((target("avx2"))) uint32_t operator()(const KeyBucket& bucket,
                                                        uint64_t key) const noexcept {
        const auto* const four = reinterpret_cast<const __m256i*>(bucket.keys);
        const __m256i wanted = _mm256_set1_epi64x(static_cast<int64_t>(key));
        const __m256i equal = _mm256_cmpeq_epi64(_mm256_load_si256(four), wanted);
        return static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(equal))) |
               static_cast<uint32_t>(bucket.keys[4] == key) << 4;
    }
};

/// Compares the whole line at once, and masks out its last 24 bytes, which are no keys.
struct MatchAvx512 {
    __attribute__((target("avx512f"))) uint32_t operator()(const KeyBucket& bucket,
                                                           uint64_t key) const noexcept {
        const __m512i line = _mm512_load_si512(&bucket);
        const __m512i wanted = _mm512_set1_epi64(static_cast<int64_t>(key));
        return _mm512_cmpeq_epi64_mask(line, wanted) & ((1U << KeyBucket::kKeys) - 1);
    }
};
#endif

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LineBucket: hash buckets of one cache line, for the tables of the limits.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weir::limits {

/// Five keys, each with a value of 4 bytes. A full bucket overflows into the next one.
template <class Value>
struct alignas(64) LineBucket {
    static constexpr size_t kKeys = 5;

    uint64_t keys[kKeys];
    Value values[kKeys];
    uint32_t used;  ///< places that are taken, from the front
};

static_assert(sizeof(LineBucket<float>) == 64);

/// The instructions that compare the keys of a bucket.
enum class Compare : uint8_t { kPortable, kAvx2, kAvx512 };

/// The fastest one that this processor supports.
[[nodiscard]] inline Compare best_compare() noexcept {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return Compare::kAvx512;
    if (__builtin_cpu_supports("avx2")) return Compare::kAvx2;
#endif
    return Compare::kPortable;
}

/// The number of buckets for `key_count` keys: a power of two, at most three quarters full.
[[nodiscard]] constexpr size_t line_buckets_for(size_t key_count) noexcept {
    return std::bit_ceil(std::max<size_t>(2, (key_count + key_count / 3) / 5 + 1));
}

// Each of these returns a mask with a bit for every place of a bucket that holds `key`. It looks
// at free places, too.

struct MatchPortable {
    uint32_t operator()(const uint64_t* keys, uint64_t key) const noexcept {
        uint32_t match = 0;
        for (uint32_t place = 0; place < 5; ++place)
            match |= static_cast<uint32_t>(keys[place] == key) << place;
        return match;
    }
};

#if defined(__x86_64__)
struct MatchAvx2 {
    __attribute__((target("avx2"))) uint32_t operator()(const uint64_t* keys,
                                                        uint64_t key) const noexcept {
        const __m256i four = _mm256_load_si256(reinterpret_cast<const __m256i*>(keys));
        const __m256i wanted = _mm256_set1_epi64x(static_cast<int64_t>(key));
        const __m256d equal = _mm256_castsi256_pd(_mm256_cmpeq_epi64(four, wanted));
        return static_cast<uint32_t>(_mm256_movemask_pd(equal)) |
               static_cast<uint32_t>(keys[4] == key) << 4;
    }
};

struct MatchAvx512 {
    __attribute__((target("avx512f"))) uint32_t operator()(const uint64_t* keys,
                                                           uint64_t key) const noexcept {
        const __m512i line = _mm512_load_si512(keys);
        return _mm512_cmpeq_epi64_mask(line, _mm512_set1_epi64(static_cast<int64_t>(key)));
    }
};
#endif

inline uint64_t line_hash(uint64_t key) noexcept {
    key *= 0x9e3779b97f4a7c15ULL;
    key ^= key >> 32;
    return key * 0xd6e8feb86659fd93ULL;
}

/// Finds or inserts every key and calls use(i, bucket, place) for it. During the call for a new
/// key bucket.used == place. The lines of later keys are prefetched into the L2 cache, which can
/// have more prefetches in flight than the L1 cache.
template <class Match, class Value, class Use>
inline __attribute__((always_inline)) void use_places(Match match, std::span<LineBucket<Value>> all,
                                                      std::span<const uint64_t> keys,
                                                      Use use) noexcept {
    constexpr size_t kAhead = 32;  // a power of two
    LineBucket<Value>* const buckets = all.data();
    const size_t mask = all.size() - 1;
    const auto shift = static_cast<uint32_t>(64 - std::countr_zero(all.size()));
    const size_t count = keys.size();
    uint32_t home[kAhead];
    const auto ask = [&](size_t i) __attribute__((always_inline)) {
        home[i % kAhead] = static_cast<uint32_t>(line_hash(keys[i]) >> shift);
        __builtin_prefetch(&buckets[home[i % kAhead]], 0, 2);
    };
    for (size_t i = 0; i < std::min(kAhead, count); ++i)
        ask(i);
    for (size_t i = 0; i < count; ++i) {
        const uint64_t key = keys[i];
        size_t at = home[i % kAhead];
        if (i + kAhead < count) ask(i + kAhead);
        while (true) {
            LineBucket<Value>& bucket = buckets[at];
            const uint32_t places = match(bucket.keys, key) & ((1U << bucket.used) - 1);
            if (places != 0) {
                use(i, bucket, static_cast<uint32_t>(std::countr_zero(places)));
                break;
            }
            if (bucket.used < LineBucket<Value>::kKeys) {
                const uint32_t place = bucket.used;
                bucket.keys[place] = key;
                use(i, bucket, place);
                bucket.used = place + 1;
                break;
            }
            at = (at + 1) & mask;
        }
    }
}

}  // namespace weir::limits

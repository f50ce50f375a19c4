// SPDX-License-Identifier: Apache-2.0
#include "lib/store/index/segment_split.h"

#include <bit>

namespace weir {
namespace {

using Overflowed = std::vector<std::pair<uint64_t, uint32_t>>;

// Each of these splits bucket `number`: its keys go to pair[0] and pair[1]. Those that belong into
// another bucket, which had overflowed, go to `overflowed`. The bucket may be pair[0] itself.

struct SplitPortable {
    KeyHash hash;
    size_t mask;
    uint32_t shift;
    Overflowed& overflowed;

    void operator()(const KeyBucket& bucket, size_t number, KeyBucket* pair) const {
        const KeyBucket from = bucket;
        pair[0] = pair[1] = KeyBucket{};
        for (uint32_t place = 0; place < from.used; ++place) {
            const uint64_t at = hash(from.keys[place]) >> shift;
            if ((at >> 1 & mask) == number) {
                put_into(pair[at & 1], from.keys[place], from.rows_plus_one[place]);
            } else {
                overflowed.emplace_back(from.keys[place], from.rows_plus_one[place]);
            }
        }
    }
};

#if defined(__x86_64__)
/// For each set of places of a bucket: the order of its 16 words that packs the keys and rows of
/// these places to the front, and which words are then used.
struct Packings {
    alignas(64) uint32_t order[1U << KeyBucket::kKeys][16] = {};
    uint16_t used[1U << KeyBucket::kKeys] = {};

    constexpr Packings() {
        constexpr uint32_t kFirstRow = 2 * KeyBucket::kKeys;
        for (uint32_t places = 0; places < 1U << KeyBucket::kKeys; ++places) {
            uint32_t to = 0;
            uint32_t words = 0;
            for (uint32_t place = 0; place < KeyBucket::kKeys; ++place) {
                if ((places >> place & 1) == 0) continue;
                order[places][size_t{2} * to] = 2 * place;
                order[places][size_t{2} * to + 1] = 2 * place + 1;
                order[places][kFirstRow + to] = kFirstRow + place;
                words |= 3U << (2 * to) | 1U << (kFirstRow + to);
                ++to;
            }
            used[places] = static_cast<uint16_t>(words);
        }
    }
};

static_assert(offsetof(KeyBucket, rows_plus_one) == 2 * KeyBucket::kKeys * sizeof(uint32_t));
static_assert(offsetof(KeyBucket, used) == 15 * sizeof(uint32_t));

constexpr Packings kPackings;

/// Splits a whole bucket at once, without branches.
struct SplitAvx512 {
    KeyHash hash;
    size_t mask;
    uint32_t shift;
    Overflowed& overflowed;

    __attribute__((target("avx512f,avx512dq,popcnt"))) void operator()(const KeyBucket& bucket,
                                                                       size_t number,
                                                                       KeyBucket* pair) const {
        constexpr __mmask8 kAllLanes = 0xff;  // GCC 12 warns of the shifts without a mask
        const __m512i line = _mm512_load_si512(&bucket);
        const uint32_t used = (1U << bucket.used) - 1;
        // The same as KeyHash, for every key.
        __m512i h = _mm512_xor_si512(line, all(hash.mask));
        h = _mm512_mullo_epi64(h, all(KeyHash::kMix));
        h = _mm512_xor_si512(h, _mm512_maskz_srli_epi64(kAllLanes, h, 32));
        h = _mm512_mullo_epi64(h, all(hash.multiplier));
        const __m512i at =
            _mm512_maskz_srl_epi64(kAllLanes, h, _mm_cvtsi32_si128(static_cast<int>(shift)));
        const __m512i home = _mm512_and_si512(at, all(2 * mask));
        const uint32_t here = used & _mm512_cmpeq_epi64_mask(home, all(2 * number));
        const uint32_t second = here & _mm512_test_epi64_mask(at, all(1));
        if (here != used) [[unlikely]]
            keep(bucket, used ^ here);
        _mm512_store_si512(&pair[0], packed(line, here ^ second));
        _mm512_store_si512(&pair[1], packed(line, second));
    }

private:
    __attribute__((target("avx512f"))) static __m512i all(uint64_t value) {
        return _mm512_set1_epi64(static_cast<int64_t>(value));
    }

    /// A bucket of these places.
    __attribute__((target("avx512f,popcnt"))) static __m512i packed(__m512i line, uint32_t places) {
        const __m512i order = _mm512_load_si512(kPackings.order[places]);
        const __m512i keys = _mm512_maskz_permutexvar_epi32(kPackings.used[places], order, line);
        return _mm512_mask_set1_epi32(keys, 1U << 15, std::popcount(places));
    }

    void keep(const KeyBucket& bucket, uint32_t places) const {
        for (; places != 0; places &= places - 1) {
            const int place = std::countr_zero(places);
            overflowed.emplace_back(bucket.keys[place], bucket.rows_plus_one[place]);
        }
    }
};
#endif

}  // namespace

/// Writes both segments from end to start, a line at a time: the keys of a bucket go to two
/// neighbours, which lie behind all buckets that are not read yet.
template <class SplitBucket>
inline __attribute__((always_inline)) void SegmentSplit::run_with(SplitBucket split_bucket,
                                                                  KeyBucket* low, KeyBucket* high,
                                                                  size_t bucket_count) {
    const size_t mask = bucket_count - 1;
    for (size_t number = bucket_count; number-- > 0;) {
        KeyBucket* const to = number < bucket_count / 2 ? low : high;
        split_bucket(low[number], number, to + (2 * number & mask));
    }
}

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512dq,popcnt"))) void SegmentSplit::run_avx512(
    KeyBucket* low, KeyBucket* high, size_t bucket_count, uint32_t shift) {
    run_with(SplitAvx512{hash_, bucket_count - 1, shift, overflowed_}, low, high, bucket_count);
}
#endif

void SegmentSplit::run(KeyBucket* low, KeyBucket* high, size_t bucket_count, uint32_t shift) {
    overflowed_.clear();
    bool done = false;
#if defined(__x86_64__)
    done = compare_ == KeyCompare::kAvx512;
    if (done) run_avx512(low, high, bucket_count, shift);
#endif
    const size_t mask = bucket_count - 1;
    if (!done) run_with(SplitPortable{hash_, mask, shift, overflowed_}, low, high, bucket_count);
    for (const auto& [key, row_plus_one] : overflowed_) {
        const uint64_t at = hash_(key) >> shift;
        put_behind((at & bucket_count) != 0 ? high : low, mask, at, key, row_plus_one);
    }
}

}  // namespace weir

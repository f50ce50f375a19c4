// SPDX-License-Identifier: Apache-2.0
#include "lib/store/key_index.h"

#include <algorithm>
#include <bit>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <fmt/core.h>

namespace weir {
namespace {

/// Lines of this many keys are under way at a time; a power of two.
constexpr size_t kAhead = 32;

/// Every bit of the key reaches the leading bits. Not the mixing of ring positions: a shard owns
/// slices of those, and would use only part of the buckets.
inline uint64_t hash(uint64_t key) noexcept {
    key *= 0x9e3779b97f4a7c15ULL;
    key ^= key >> 32;
    return key * 0xd6e8feb86659fd93ULL;
}

/// At three quarters full, one key in eight has overflowed.
constexpr size_t max_keys(size_t bucket_count) noexcept {
    return bucket_count * KeyIndex::kKeysPerBucket / 4 * 3;
}

/// A bit per place of `keys` that holds `key`.
struct MatchAnywhere {
    uint32_t operator()(const uint64_t* keys, uint64_t key) const noexcept {
        uint32_t match = 0;  // without branches, which would be guessed wrong
        for (size_t slot = 0; slot < KeyIndex::kKeysPerBucket; ++slot)
            match |= static_cast<uint32_t>(keys[slot] == key) << slot;
        return match;
    }
};

#if defined(__x86_64__)
/// The same in one comparison of the whole line.
struct MatchAvx512 {
    __attribute__((target("avx512f"))) uint32_t operator()(const uint64_t* keys,
                                                           uint64_t key) const noexcept {
        const __m512i line = _mm512_load_si512(keys);
        const __m512i wanted = _mm512_set1_epi64(static_cast<int64_t>(key));
        return _mm512_cmpeq_epi64_mask(line, wanted) & ((1U << KeyIndex::kKeysPerBucket) - 1);
    }
};
#endif

}  // namespace

template <class Match>
inline __attribute__((always_inline)) size_t KeyIndex::find_with(
    Match match, std::span<const uint64_t> keys, std::span<uint32_t> rows) const noexcept {
    const size_t count = keys.size();
    const auto* buckets = buckets_.as<const Bucket>();
    const uint32_t shift = shift_;
    uint32_t home[kAhead];
    const auto ask = [&](size_t i) __attribute__((always_inline)) {
        home[i % kAhead] = static_cast<uint32_t>(hash(keys[i]) >> shift);
        __builtin_prefetch(&buckets[home[i % kAhead]]);
    };
    size_t missing = 0;
    for (size_t i = 0; i < std::min(kAhead, count); ++i)
        ask(i);
    for (size_t i = 0; i < count; ++i) {
        const uint64_t key = keys[i];
        const uint32_t at = home[i % kAhead];
        if (i + kAhead < count) ask(i + kAhead);
        const Bucket& bucket = buckets[at];
        const uint32_t places = match(bucket.keys, key);
        // A free place looks like key 0, but key 0 itself comes before it.
        uint32_t found = places == 0 ? 0 : bucket.rows_plus_one[std::countr_zero(places)];
        if (found == 0 && bucket.overflowed != 0) [[unlikely]]
            found = find_behind(key, at);
        missing += found == 0 ? 1 : 0;
        rows[i] = found - 1;  // 0 becomes kNoRow
    }
    return missing;
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) size_t KeyIndex::find_avx512(
    std::span<const uint64_t> keys, std::span<uint32_t> rows) const noexcept {
    return find_with(MatchAvx512(), keys, rows);
}
#endif

size_t KeyIndex::find(std::span<const uint64_t> keys, std::span<uint32_t> rows) const noexcept {
    WEIR_CHECK(rows.size() == keys.size());
    if (size_ == 0) {
        std::ranges::fill(rows, kNoRow);
        return keys.size();
    }
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return find_avx512(keys, rows);
#endif
    return find_with(MatchAnywhere(), keys, rows);
}

uint32_t KeyIndex::find_behind(uint64_t key, size_t bucket) const noexcept {
    const auto* buckets = buckets_.as<const Bucket>();
    const size_t mask = bucket_count_ - 1;
    while (buckets[bucket].overflowed != 0) {
        bucket = (bucket + 1) & mask;
        for (size_t slot = 0; slot < buckets[bucket].used; ++slot) {
            if (buckets[bucket].keys[slot] == key) return buckets[bucket].rows_plus_one[slot];
        }
    }
    return 0;
}

Status KeyIndex::insert_missing(std::span<const uint64_t> keys, std::span<uint32_t> rows,
                                size_t missing_count) {
    if (missing_count == 0) return {};
    WEIR_TRY(reserve(size_ + missing_count));
    auto* buckets = buckets_.as<Bucket>();
    for (size_t i = 0; i < keys.size(); ++i) {
        if (rows[i] != kNoRow) continue;
        place(buckets, bucket_count_ - 1, hash(keys[i]) >> shift_, keys[i],
              static_cast<uint32_t>(size_ + 1));
        rows[i] = static_cast<uint32_t>(size_++);
    }
    return {};
}

void KeyIndex::place(Bucket* buckets, size_t mask, size_t home, uint64_t key,
                     uint32_t row_plus_one) noexcept {
    size_t at = home;
    while (buckets[at].used == kKeysPerBucket)
        [[unlikely]] {
            buckets[at].overflowed = 1;
            at = (at + 1) & mask;
        }
    Bucket& bucket = buckets[at];
    bucket.keys[bucket.used] = key;
    bucket.rows_plus_one[bucket.used] = row_plus_one;
    ++bucket.used;
}

Status KeyIndex::reserve(size_t key_count) {
    if (key_count <= max_keys(bucket_count_)) return {};
    if (key_count > kRowCountMax) {
        return Error(Errc::kNoMemory,
                     fmt::format("sparse table: more than {} keys in one shard; use more shards",
                                 kRowCountMax));
    }
    const auto buckets_for = [this](size_t keys) {
        size_t count = std::max<size_t>(8, bucket_count_);
        while (max_keys(count) < keys)
            count *= 2;
        return count;
    };
    size_t wanted = buckets_for(std::max(key_count, expected_keys_));
    Block fresh = Block::spare(memory_, wanted * sizeof(Bucket));
    if (!fresh) {  // then without foresight
        wanted = buckets_for(key_count);
        fresh = Block(memory_, wanted * sizeof(Bucket));
    }
    if (!fresh) {
        return Error(Errc::kNoMemory,
                     fmt::format("sparse table: no memory to index {} keys ({} MiB) beside the {} "
                                 "there are; give the server a larger pool",
                                 key_count, (wanted * sizeof(Bucket)) >> 20, size_));
    }
    const auto shift = static_cast<uint32_t>(64 - std::countr_zero(wanted));
    rehash(fresh.as<Bucket>(), wanted - 1, shift);
    buckets_ = std::move(fresh);
    bucket_count_ = wanted;
    shift_ = shift;
    return {};
}

void KeyIndex::rehash(Bucket* to, size_t to_mask, uint32_t to_shift) const noexcept {
    const auto* from = buckets_.as<const Bucket>();
    for (size_t at = 0; at < bucket_count_; ++at) {
        for (size_t slot = 0; slot < from[at].used; ++slot) {
            const uint64_t key = from[at].keys[slot];
            place(to, to_mask, hash(key) >> to_shift, key, from[at].rows_plus_one[slot]);
        }
    }
}

}  // namespace weir

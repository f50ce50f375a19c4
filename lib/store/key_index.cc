// SPDX-License-Identifier: Apache-2.0
#include "lib/store/key_index.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

namespace weir {
namespace {

/// Lines of this many keys are under way at a time.
constexpr size_t kBatch = 32;

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

}  // namespace

size_t KeyIndex::find(std::span<const uint64_t> keys, std::span<uint32_t> rows) const noexcept {
    WEIR_CHECK(rows.size() == keys.size());
    const size_t count = keys.size();
    if (size_ == 0) {
        std::ranges::fill(rows, kNoRow);
        return count;
    }
    const auto* buckets = buckets_.as<const Bucket>();
    uint32_t homes[2][kBatch];
    const auto ask = [&](size_t begin, uint32_t* home) {
        const size_t n = std::min(kBatch, count - begin);
        for (size_t i = 0; i < n; ++i) {
            home[i] = static_cast<uint32_t>(hash(keys[begin + i]) >> shift_);
            __builtin_prefetch(&buckets[home[i]]);
        }
    };
    size_t missing = 0;
    ask(0, homes[0]);
    for (size_t begin = 0, turn = 0; begin < count; begin += kBatch, turn ^= 1) {
        if (begin + kBatch < count) ask(begin + kBatch, homes[turn ^ 1]);
        const size_t n = std::min(kBatch, count - begin);
        for (size_t i = 0; i < n; ++i) {
            const uint64_t key = keys[begin + i];
            const Bucket& bucket = buckets[homes[turn][i]];
            uint32_t match = 0;  // a bit per place; without branches, which would be guessed wrong
            for (size_t slot = 0; slot < kKeysPerBucket; ++slot)
                match |= static_cast<uint32_t>(bucket.keys[slot] == key) << slot;
            // A free place looks like key 0, but key 0 itself comes before it.
            uint32_t found = match == 0 ? 0 : bucket.rows_plus_one[std::countr_zero(match)];
            if (found == 0 && bucket.overflowed != 0) [[unlikely]]
                found = find_behind(key, homes[turn][i]);
            missing += found == 0 ? 1 : 0;
            rows[begin + i] = found - 1;  // 0 becomes kNoRow
        }
    }
    return missing;
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
    size_t wanted = std::max<size_t>(8, bucket_count_);
    while (max_keys(wanted) < std::max(key_count, expected_keys_))
        wanted *= 2;
    Block fresh(memory_, wanted * sizeof(Bucket));
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

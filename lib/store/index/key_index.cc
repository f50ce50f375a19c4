// SPDX-License-Identifier: Apache-2.0
#include "lib/store/index/key_index.h"

#include <bit>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "lib/base/random.h"
#include "lib/base/secret_seed.h"
#include "lib/key/key_list.h"

namespace weir {
namespace {

/// How many keys ahead buckets are prefetched, to the L2 cache; a power of two.
constexpr size_t kLinesAhead = 32;

/// At three quarters full, one key in eight has overflowed.
constexpr size_t keys_in(size_t bucket_count) noexcept {
    return bucket_count * KeyBucket::kKeys / 4 * 3;
}

KeyHash hash_from(uint64_t seed) {
    Random random(seed);
    const uint64_t mask = random();
    return {mask, random() | 1};
}

}  // namespace

KeyIndex::KeyIndex(Memory& memory, const KeyIndexOptions& options)
    : memory_(memory),
      options_(options),
      hash_(hash_from(options.seed ? *options.seed : secret_seed())),
      split_(hash_, options.compare) {
    options_.expected_keys = std::min<size_t>(options_.expected_keys, kRowCountMax);
}

/// Puts the key into the first bucket with room, from its own bucket on.
void KeyIndex::put_behind(uint64_t key, uint32_t row_plus_one) const noexcept {
    const uint64_t h = hash_(key);
    const Segment& segment = directory_[h >> (63 - depth_)];
    weir::put_behind(segment.buckets, bucket_count_ - 1, h >> segment.shift, key, row_plus_one);
}

// Finding.

/// Looks up each key. A missing key gets the next row if `kInsert`, else kNoRow. Returns the
/// number of missing keys.
template <bool kInsert, class Match>
inline __attribute__((always_inline)) size_t KeyIndex::pass_with(
    Match match, std::span<const uint64_t> keys, std::span<uint32_t> rows) const noexcept {
    const size_t count = keys.size();
    const Segment* const directory = directory_.data();
    const uint32_t directory_shift = 63 - depth_;
    const size_t mask = bucket_count_ - 1;
    KeyBucket* home[kLinesAhead];
    const auto ask = [&](size_t i) __attribute__((always_inline)) {
        const uint64_t h = hash_(keys[i]);
        const Segment& segment = directory[h >> directory_shift];
        KeyBucket* const bucket = segment.buckets + ((h >> segment.shift) & mask);
        home[i % kLinesAhead] = bucket;
        __builtin_prefetch(bucket, 0, 2);
    };
    uint32_t missing = 0;
    for (size_t i = 0; i < std::min(kLinesAhead, count); ++i)
        ask(i);
    for (size_t i = 0; i < count; ++i) {
        const uint64_t key = keys[i];
        KeyBucket& bucket = *home[i % kLinesAhead];
        if (i + kLinesAhead < count) ask(i + kLinesAhead);
        const uint32_t places = match(bucket, key);
        // A free place looks like key 0, but key 0 itself comes before it.
        uint32_t found = places == 0 ? 0 : bucket.rows_plus_one[std::countr_zero(places)];
        if (found == 0 && bucket.overflowed != 0) [[unlikely]]
            found = find_behind(key);
        if constexpr (kInsert) {
            if (found == 0) {
                found = static_cast<uint32_t>(next_row_) + ++missing;
                if (bucket.used < KeyBucket::kKeys) {
                    put_into(bucket, key, found);
                } else {
                    put_behind(key, found);
                }
            }
        } else {
            missing += found == 0 ? 1 : 0;
        }
        rows[i] = found - 1;  // 0 becomes kNoRow
    }
    return missing;
}

#if defined(__x86_64__)
template <bool kInsert>
__attribute__((target("avx2"))) size_t KeyIndex::pass_avx2(
    std::span<const uint64_t> keys, std::span<uint32_t> rows) const noexcept {
    return pass_with<kInsert>(MatchAvx2(), keys, rows);
}

template <bool kInsert>
__attribute__((target("avx512f"))) size_t KeyIndex::pass_avx512(
    std::span<const uint64_t> keys, std::span<uint32_t> rows) const noexcept {
    return pass_with<kInsert>(MatchAvx512(), keys, rows);
}
#endif

template <bool kInsert>
size_t KeyIndex::pass(std::span<const uint64_t> keys, std::span<uint32_t> rows) const noexcept {
#if defined(__x86_64__)
    if (options_.compare == KeyCompare::kAvx512) return pass_avx512<kInsert>(keys, rows);
    if (options_.compare == KeyCompare::kAvx2) return pass_avx2<kInsert>(keys, rows);
#endif
    return pass_with<kInsert>(MatchPortable(), keys, rows);
}

size_t KeyIndex::find(std::span<const uint64_t> keys, std::span<uint32_t> rows) const noexcept {
    WEIR_CHECK(rows.size() == keys.size());
    if (size_ == 0) {
        std::ranges::fill(rows, kNoRow);
        return keys.size();
    }
    return pass<false>(keys, rows);
}

void KeyIndex::upsert(std::span<const uint64_t> keys, std::span<uint32_t> rows) noexcept {
    WEIR_CHECK(rows.size() == keys.size() && has_room_for(keys.size()));
    if (keys.empty()) return;
    const size_t added = pass<true>(keys, rows);
    note_added(added);
    next_row_ += added;
}

/// Looks in the buckets behind the key's own bucket, which has overflowed and does not hold it.
/// Returns the row + 1, or 0.
uint32_t KeyIndex::find_behind(uint64_t key) const noexcept {
    const uint64_t h = hash_(key);
    const Segment& segment = directory_[h >> (63 - depth_)];
    const size_t mask = bucket_count_ - 1;
    size_t at = (h >> segment.shift) & mask;
    for (size_t passed = 0; passed <= mask && segment.buckets[at].overflowed != 0; ++passed) {
        at = (at + 1) & mask;
        const KeyBucket& bucket = segment.buckets[at];
        for (size_t place = 0; place < bucket.used; ++place) {
            if (bucket.keys[place] == key) return bucket.rows_plus_one[place];
        }
    }
    return 0;
}

size_t KeyIndex::longest_walk() const noexcept {
    size_t longest = size_ == 0 ? 0 : 1;
    for (const Segment& segment : directory_) {
        size_t walk = 1;
        for (size_t at = 0; at < 2 * bucket_count_; ++at) {  // a run may wrap around the end
            walk = segment.buckets[at & (bucket_count_ - 1)].overflowed != 0 ? walk + 1 : 1;
            longest = std::max(longest, std::min(walk, bucket_count_));
        }
    }
    return longest;
}

// Inserting.

Result<size_t> KeyIndex::insert_missing(std::span<const uint64_t> keys, std::span<uint32_t> rows,
                                        std::span<const uint32_t> new_rows) {
    if (new_rows.empty()) return size_t{0};
    WEIR_TRY(reserve(fullest_ + new_rows.size()));
    const bool may_repeat = !is_sorted_unique(keys);
    size_t used = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
        if (rows[i] != kNoRow) continue;
        uint32_t found = may_repeat ? find_one(keys[i]) : 0;
        if (found == 0) {
            const uint32_t row = new_rows[used++];
            found = row + 1;
            put_behind(keys[i], found);
            next_row_ = std::max<size_t>(next_row_, found);
        }
        rows[i] = found - 1;
    }
    note_added(used);
    return used;
}

/// Returns the row + 1, or 0.
uint32_t KeyIndex::find_one(uint64_t key) const noexcept {
    const Place at = place_of(hash_(key));
    const KeyBucket& bucket = at.buckets[at.bucket];
    for (size_t place = 0; place < bucket.used; ++place) {
        if (bucket.keys[place] == key) return bucket.rows_plus_one[place];
    }
    return bucket.overflowed != 0 ? find_behind(key) : 0;
}

void KeyIndex::clear() noexcept {
    directory_.clear();
    blocks_.clear();
    spare_segments_.clear();
    depth_ = 0;
    split_count_ = bucket_count_ = bytes_ = 0;
    size_ = fullest_ = next_row_ = 0;
    walk_ = {};
}

/// Calls put(hash, key, row + 1) for every key of these buckets.
template <class Put>
void KeyIndex::move_keys(const KeyBucket* from, size_t bucket_count, Put put) const noexcept {
    // The keys are packed first, because the branch that ends a loop over one bucket's keys would
    // be mispredicted.
    constexpr size_t kSome = 64;
    uint64_t keys[(kSome + 1) * KeyBucket::kKeys];
    uint32_t rows_plus_one[(kSome + 1) * KeyBucket::kKeys];
    for (size_t begin = 0; begin < bucket_count; begin += kSome) {
        const size_t end = std::min(bucket_count, begin + kSome);
        size_t count = 0;
        for (size_t at = begin; at < end; ++at) {
            std::memcpy(keys + count, from[at].keys, sizeof(KeyBucket::keys));
            std::memcpy(rows_plus_one + count, from[at].rows_plus_one,
                        sizeof(KeyBucket::rows_plus_one));
            count += from[at].used;
        }
        for (size_t i = 0; i < count; ++i)
            put(hash_(keys[i]), keys[i], rows_plus_one[i]);
    }
}

// Growing.

/// Splitting begins when segments that are not split are 0.55 full. All are split when those
/// would be 0.75 full. So no push pays for a whole doubling at once.
size_t KeyIndex::comfortable_keys() const noexcept {
    if (bucket_count_ < kSegmentBuckets) return keys_in(bucket_count_);
    constexpr size_t kPlaces = kSegmentBuckets * KeyBucket::kKeys;
    return kPlaces * (11 * (size_t{1} << depth_) + 4 * split_count_) / 20;
}

/// How many keys the index can have and still be fast.
size_t KeyIndex::keys_max() const noexcept {
    return keys_in(bucket_count_) << depth_;
}

Status KeyIndex::reserve(size_t key_count) {
    if (key_count <= comfortable_keys()) return {};
    if (key_count > kRowCountMax) {
        return Error(Errc::kNoMemory,
                     fmt::format("sparse table: more than {} keys in one shard; use more shards",
                                 kRowCountMax));
    }
    if (bucket_count_ == 0) {
        const bool built =
            options_.expected_keys > key_count && build(options_.expected_keys, false);
        if (built || build(key_count, true)) return {};
    } else {
        bool grown = grow_first(key_count);
        while (grown && comfortable_keys() < key_count)
            grown = split_next();
        if (grown || key_count <= keys_max()) return {};
    }
    return Error(
        Errc::kNoMemory,
        fmt::format("no memory to index {} keys beside the {} there are; use more servers, "
                    "or see in the server's log which limit was reached",
                    key_count, size_));
}

/// Zeroed buckets, freed with the index; nullptr if there is no memory. Caches make room for it
/// only if `is_needed`.
KeyBucket* KeyIndex::take_memory(size_t bucket_count, bool is_needed) {
    const size_t bytes = bucket_count * sizeof(KeyBucket);
    Block block = is_needed ? Block(memory_, bytes) : Block::spare(memory_, bytes);
    if (!block) return nullptr;
    bytes_ += bytes;
    blocks_.push_back(std::move(block));
    return blocks_.back().as<KeyBucket>();
}

/// Makes the first buckets, for at least `key_count` keys. It is one allocation, so that it fails
/// at once if there are too many keys.
bool KeyIndex::build(size_t key_count, bool is_needed) {
    size_t bucket_count = 8;
    while (bucket_count < kSegmentBuckets && keys_in(bucket_count) < key_count)
        bucket_count *= 2;
    uint32_t depth = 0;
    size_t split_count = 0;
    if (bucket_count == kSegmentBuckets) {
        constexpr size_t kPlaces = kSegmentBuckets * KeyBucket::kKeys;
        while (keys_in(kSegmentBuckets) << depth < key_count)
            ++depth;
        // As many splits as comfortable_keys() needs for key_count.
        const size_t whole = size_t{1} << depth;
        const size_t parts = (key_count * 20 + kPlaces - 1) / kPlaces;
        split_count = parts <= 11 * whole ? 0 : std::min(whole, (parts - 11 * whole + 3) / 4);
        if (split_count == whole) {
            ++depth;
            split_count = 0;
        }
    }
    KeyBucket* const buckets =
        take_memory(bucket_count * ((size_t{1} << depth) + split_count), is_needed);
    if (buckets == nullptr) return false;
    set_shape(bucket_count, depth, split_count, buckets);
    return true;
}

/// Fills the directory with segments that lie side by side.
void KeyIndex::set_shape(size_t bucket_count, uint32_t depth, size_t split_count,
                         KeyBucket* buckets) {
    bucket_count_ = bucket_count;
    depth_ = depth;
    split_count_ = split_count;
    directory_.resize(size_t{2} << depth);
    const auto shift =
        static_cast<uint32_t>(64 - depth) - static_cast<uint32_t>(std::countr_zero(bucket_count));
    for (size_t value = 0; value < size_t{1} << depth; ++value) {
        const bool is_split = value < split_count;
        for (const size_t half : {0, 1}) {
            directory_[2 * value + half] = {buckets, is_split ? shift - 1 : shift};
            if (is_split || half == 1) buckets += bucket_count;
        }
    }
}

/// Enlarges a first segment that is not whole yet, to what `key_count` needs.
bool KeyIndex::grow_first(size_t key_count) {
    size_t bucket_count = bucket_count_;
    while (bucket_count < kSegmentBuckets && keys_in(bucket_count) < key_count)
        bucket_count *= 2;
    if (bucket_count == bucket_count_) return true;
    KeyBucket* const to = take_memory(bucket_count, true);
    if (to == nullptr) return false;
    const auto shift = static_cast<uint32_t>(64 - std::countr_zero(bucket_count));
    move_keys(directory_[0].buckets, bucket_count_,
              [&](uint64_t h, uint64_t key, uint32_t row_plus_one) {
                  weir::put_behind(to, bucket_count - 1, h >> shift, key, row_plus_one);
              });
    walk_.has_seen_all = false;
    bytes_ -= bucket_count_ * sizeof(KeyBucket);
    blocks_.erase(blocks_.begin());
    set_shape(bucket_count, 0, 0, to);
    return true;
}

/// Memory for a segment; nullptr if there is none.
KeyBucket* KeyIndex::take_segment() {
    if (spare_segments_.empty()) {
        // Two at a time fill a huge page.
        KeyBucket* const two = take_memory(2 * kSegmentBuckets, false);
        if (two == nullptr) return take_memory(kSegmentBuckets, true);
        spare_segments_ = {two + kSegmentBuckets, two};
    }
    KeyBucket* const segment = spare_segments_.back();
    spare_segments_.pop_back();
    return segment;
}

/// Splits the next segment. The lower half of its keys stays in its memory.
bool KeyIndex::split_next() {
    KeyBucket* const high = take_segment();
    if (high == nullptr) return false;
    Segment* const entries = &directory_[2 * split_count_];
    KeyBucket* const low = entries[0].buckets;
    const uint32_t shift = entries[0].shift - 1;
    split_.run(low, high, kSegmentBuckets, shift);
    walk_.has_seen_all = false;
    entries[0] = {low, shift};
    entries[1] = {high, shift};
    if (++split_count_ < size_t{1} << depth_) return true;
    // All are split: each segment gets two entries.
    ++depth_;
    split_count_ = 0;
    std::vector<Segment> doubled(directory_.size() * 2);
    for (size_t i = 0; i < doubled.size(); ++i)
        doubled[i] = directory_[i / 2];
    directory_ = std::move(doubled);
    return true;
}

}  // namespace weir

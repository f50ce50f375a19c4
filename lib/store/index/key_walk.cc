// SPDX-License-Identifier: Apache-2.0
/// \file
/// KeyIndex: walks in the order of the keys' hashes, which list keys or remove them.

#include <algorithm>
#include <bit>
#include <utility>

#include "lib/store/index/key_index.h"

namespace weir {
namespace {

/// Of the keys from index `begin` on, keeps those with the lowest hashes up to index `end`.
/// Returns the hash that comes next.
uint64_t keep_lowest(KeyHash hash, size_t begin, size_t end, std::vector<uint64_t>& keys,
                     std::vector<uint32_t>& rows) {
    struct Listed {
        uint64_t hash;
        uint64_t key;
        uint32_t row;
    };

    std::vector<Listed> all;
    for (size_t i = begin; i < keys.size(); ++i)
        all.push_back({hash(keys[i]), keys[i], rows[i]});
    std::ranges::sort(all, {}, &Listed::hash);
    keys.resize(end);
    rows.resize(end);
    for (size_t i = begin; i < end; ++i) {
        keys[i] = all[i - begin].key;
        rows[i] = all[i - begin].row;
    }
    return all[end - begin].hash;
}

}  // namespace

KeyIndex::Place KeyIndex::place_of(uint64_t hash) const noexcept {
    const Segment& segment = directory_[hash >> (63 - depth_)];
    return {segment.buckets, (hash >> segment.shift) & (bucket_count_ - 1), segment.shift};
}

/// Whether keys of other buckets may have overflowed into this one.
bool KeyIndex::may_have_strangers(const Place& place) const noexcept {
    return place.buckets[(place.bucket - 1) & (bucket_count_ - 1)].overflowed != 0;
}

/// Calls use(key, row) for the keys whose own bucket this is and whose hash is at least
/// `first_hash`.
template <class Use>
inline __attribute__((always_inline)) void KeyIndex::each_key_at_home(const Place& place,
                                                                      uint64_t first_hash,
                                                                      Use use) const {
    const size_t mask = bucket_count_ - 1;
    const KeyBucket* bucket = &place.buckets[place.bucket];
    const bool starts_inside = (first_hash & ((uint64_t{1} << place.shift) - 1)) != 0;
    if (bucket->overflowed == 0 && !starts_inside && !may_have_strangers(place)) [[likely]] {
        for (size_t i = 0; i < bucket->used; ++i)
            use(bucket->keys[i], bucket->rows_plus_one[i] - 1);
        return;
    }
    for (size_t at = place.bucket;;) {
        for (size_t i = 0; i < bucket->used; ++i) {
            const uint64_t h = hash_(bucket->keys[i]);
            const bool is_home = ((h >> place.shift) & mask) == place.bucket;
            if (is_home && h >= first_hash) use(bucket->keys[i], bucket->rows_plus_one[i] - 1);
        }
        at = (at + 1) & mask;
        if (bucket->overflowed == 0 || at == place.bucket) return;
        bucket = &place.buckets[at];
    }
}

void KeyIndex::list(KeyCursor& cursor, const PositionSet& positions, size_t key_count_max,
                    size_t bucket_count_max, std::vector<uint64_t>& keys,
                    std::vector<uint32_t>& rows) const {
    if (size_ == 0) cursor.at_end = true;
    const bool is_all = positions.is_whole_ring();
    const size_t keys_end = keys.size() + key_count_max;
    while (!cursor.at_end && bucket_count_max > 0 && keys.size() < keys_end) {
        --bucket_count_max;
        const Place place = place_of(cursor.next);
        const size_t before = keys.size();
        each_key_at_home(place, cursor.next, [&](uint64_t key, uint32_t row) {
            if (!is_all && !positions.contains(PositionMap::sparse().position(key))) return;
            keys.push_back(key);
            rows.push_back(row);
        });
        if (keys.size() > keys_end) [[unlikely]] {  // the next step begins inside this bucket
            cursor.next = keep_lowest(hash_, before, keys_end, keys, rows);
            return;
        }
        cursor.next = (cursor.next | ((uint64_t{1} << place.shift) - 1)) + 1;
        cursor.at_end = cursor.next == 0;
    }
}

/// Removes keys from the buckets of the chain that begins at bucket `head`: each but the last has
/// overflowed into the next. Calls drop(key, row) once for each key. Returns the chain's length.
template <class Drop>
size_t KeyIndex::remove_in_chain(const Place& place, size_t head, Drop drop) {
    const size_t mask = bucket_count_ - 1;
    KeyBucket& first = place.buckets[head];
    if (first.overflowed == 0) [[likely]] {
        for (size_t i = 0; i < first.used;) {
            if (!drop(first.keys[i], first.rows_plus_one[i] - 1)) {
                ++i;
                continue;
            }
            const size_t last = --first.used;
            first.keys[i] = first.keys[last];
            first.rows_plus_one[i] = first.rows_plus_one[last];
            first.keys[last] = 0;
            first.rows_plus_one[last] = 0;
        }
        return 1;
    }
    std::vector<std::pair<uint64_t, uint32_t>> kept;
    size_t length = 0;
    for (bool goes_on = true; goes_on && length < bucket_count_; ++length) {
        KeyBucket& bucket = place.buckets[(head + length) & mask];
        for (size_t i = 0; i < bucket.used; ++i) {
            if (!drop(bucket.keys[i], bucket.rows_plus_one[i] - 1))
                kept.emplace_back(bucket.keys[i], bucket.rows_plus_one[i]);
        }
        goes_on = bucket.overflowed != 0;
        bucket = KeyBucket{};
    }
    for (const auto& [key, row_plus_one] : kept)
        weir::put_behind(place.buckets, mask, hash_(key) >> place.shift, key, row_plus_one);
    return length;
}

void KeyIndex::remove_outside(KeyCursor& cursor, const PositionSet& kept, size_t bucket_count_max,
                              std::vector<uint32_t>& freed) {
    remove(cursor, bucket_count_max, freed, [&](uint64_t key, uint32_t) {
        return !kept.contains(PositionMap::sparse().position(key));
    });
}

void KeyIndex::remove_if(KeyCursor& cursor, const Drops& drops, size_t bucket_count_max,
                         std::vector<uint32_t>& freed) {
    remove(cursor, bucket_count_max, freed,
           [&](uint64_t key, uint32_t row) { return drops(key, row); });
}

template <class Drop>
void KeyIndex::remove(KeyCursor& cursor, size_t bucket_count_max, std::vector<uint32_t>& freed,
                      Drop drops) {
    if (size_ == 0) cursor.at_end = true;
    const size_t mask = bucket_count_ - 1;
    const auto drop = [&](uint64_t key, uint32_t row) {
        if (!drops(key, row)) return false;
        freed.push_back(row);
        return true;
    };
    const size_t freed_before = freed.size();
    begin_to_remove(cursor);
    while (!cursor.at_end && bucket_count_max > 0) {
        const Place place = place_of(cursor.next);
        const uint64_t in_segment = ((mask + 1) << place.shift) - 1;
        // A chain that begins before is done as a whole: no mark of an overflow is left behind.
        size_t head = place.bucket;
        for (size_t i = 0; i < mask && place.buckets[(head - 1) & mask].overflowed != 0; ++i)
            head = (head - 1) & mask;
        size_t bucket = place.bucket;
        size_t done = remove_in_chain(place, head, drop);
        done = std::max<size_t>(done, ((bucket - head) & mask) + 1) - ((bucket - head) & mask);
        while (true) {
            bucket += done;
            bucket_count_max -= std::min(bucket_count_max, done);
            if (bucket > mask || bucket_count_max == 0) break;
            done = remove_in_chain(place, bucket, drop);
        }
        for (size_t at = place.bucket; at < std::min(bucket, mask + 1); ++at)
            walk_.in_segment += place.buckets[at].used;
        if (bucket > mask) end_segment(place);
        cursor.next = bucket > mask ? (cursor.next | in_segment) + 1
                                    : (cursor.next & ~in_segment) + (bucket << place.shift);
        cursor.at_end = cursor.next == 0;
    }
    size_ -= freed.size() - freed_before;
    end_to_remove(cursor);
}

void KeyIndex::begin_to_remove(const KeyCursor& cursor) noexcept {
    if (cursor.next == 0) {
        walk_ = {};
        walk_.has_seen_all = !cursor.at_end || size_ == 0;
    } else if (cursor.next != walk_.next) {
        walk_.has_seen_all = false;
    }
}

void KeyIndex::end_segment(const Place& place) noexcept {
    const int segments_log2 = 64 - static_cast<int>(place.shift) - std::countr_zero(bucket_count_);
    walk_.fullest =
        std::max(walk_.fullest, (walk_.in_segment << segments_log2) + walk_.added_to_segment);
    walk_.in_segment = walk_.added_to_segment = 0;
}

void KeyIndex::end_to_remove(const KeyCursor& cursor) noexcept {
    walk_.next = cursor.next;
    if (cursor.at_end && walk_.has_seen_all) fullest_ = std::max(size_, walk_.fullest);
}

}  // namespace weir

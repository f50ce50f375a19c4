// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// KeyIndex: finds the row of each key of a sparse table.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/result.h"
#include "lib/store/key_bucket.h"
#include "lib/store/memory.h"
#include "lib/store/row_store.h"
#include "lib/store/segment_split.h"

namespace weir {

struct KeyIndexOptions {
    /// This many keys fit before the index first grows, if there is memory for them.
    size_t expected_keys = 0;
    /// Decides which keys share a bucket. None: drawn at random, so that peers cannot predict it.
    std::optional<uint64_t> seed{};
    KeyCompare compare = best_key_compare();
};

/// Open addressing over buckets of one cache line. Keys come in lists: while one key is compared,
/// the buckets of the next ones are prefetched. Any uint64 may be a key; keys are never removed.
///
/// Buckets are numbered by the leading bits of a hash. They lie in segments of 1 MiB, which are
/// found through a directory. When the index fills, one segment after another is split in two, in
/// the order of their hashes. So growing costs a push a few splits at most, which stream through
/// the L2 cache, and takes memory in small steps. The order of hashes never changes, so a walk
/// through the index in this order can stop and continue while keys are added.
///
/// The hash depends on a secret seed. A peer without the seed cannot make up keys that share a
/// bucket. The mixing of ring positions must not be used here: it is public and can be inverted.
///
/// Thread: owning shard
class KeyIndex {
public:
    static constexpr uint32_t kRowCountMax = kNoRow - 1;
    static constexpr size_t kSegmentBuckets = size_t{1} << 14;

    explicit KeyIndex(Memory& memory, const KeyIndexOptions& options = {});

    /// Writes the row of each key to `rows`, kNoRow for those that are missing. Returns the
    /// number of missing keys.
    /// Shape:   rows.size() == keys.size()
    size_t find(std::span<const uint64_t> keys, std::span<uint32_t> rows) const noexcept;

    /// Whether upsert() may add `key_count` keys.
    [[nodiscard]] bool has_room_for(size_t key_count) const noexcept {
        return size_ + key_count <= comfortable_keys();
    }

    /// Writes the row of each key to `rows`. Missing keys get the next row numbers, in order.
    /// has_room_for(keys.size()) must be true.
    void upsert(std::span<const uint64_t> keys, std::span<uint32_t> rows) noexcept;

    /// Gives the keys whose row is kNoRow the next row numbers, in order, and writes these to
    /// `rows`. `rows` and `missing_count` are what find() returned for `keys`, which must be
    /// distinct.
    /// Errors:  Errc::kNoMemory; the keys and rows of the index are unchanged
    [[nodiscard]] Status insert_missing(std::span<const uint64_t> keys, std::span<uint32_t> rows,
                                        size_t missing_count);

    /// The number of keys, and so of rows: 0..size()-1.
    [[nodiscard]] size_t size() const noexcept { return size_; }

    [[nodiscard]] size_t bytes() const noexcept { return bytes_; }

    /// The longest run of buckets that a look-up may have to read. Reads the whole index.
    [[nodiscard]] size_t longest_walk() const noexcept;

private:
    /// The buckets of the keys whose hashes have the same leading bits.
    struct Segment {
        KeyBucket* buckets = nullptr;
        uint32_t shift = 0;  ///< the last bits of hash >> shift are the bucket's number
    };

    template <bool kInsert, class Match>
    size_t pass_with(Match match, std::span<const uint64_t> keys,
                     std::span<uint32_t> rows) const noexcept;
    template <bool kInsert>
    size_t pass_avx2(std::span<const uint64_t> keys, std::span<uint32_t> rows) const noexcept;
    template <bool kInsert>
    size_t pass_avx512(std::span<const uint64_t> keys, std::span<uint32_t> rows) const noexcept;
    template <bool kInsert>
    size_t pass(std::span<const uint64_t> keys, std::span<uint32_t> rows) const noexcept;
    [[nodiscard]] uint32_t find_behind(uint64_t key) const noexcept;

    void put_behind(uint64_t key, uint32_t row_plus_one) const noexcept;
    template <class Put>
    void move_keys(const KeyBucket* from, size_t bucket_count, Put put) const noexcept;

    [[nodiscard]] Status reserve(size_t key_count);
    [[nodiscard]] size_t comfortable_keys() const noexcept;
    [[nodiscard]] size_t keys_max() const noexcept;
    [[nodiscard]] bool build(size_t key_count, bool is_needed);
    [[nodiscard]] bool grow_first(size_t key_count);
    [[nodiscard]] bool split_next();
    [[nodiscard]] KeyBucket* take_segment();
    [[nodiscard]] KeyBucket* take_memory(size_t bucket_count, bool is_needed);
    void set_shape(size_t bucket_count, uint32_t depth, size_t split_count, KeyBucket* buckets);

    Memory& memory_;
    KeyIndexOptions options_;
    KeyHash hash_;  // from the seed
    SegmentSplit split_;
    size_t size_ = 0;

    // Two entries for each value of the `depth_` leading bits of a hash: the same segment twice,
    // or the two segments that it was split into. The first split_count_ values are split.
    std::vector<Segment> directory_;
    uint32_t depth_ = 0;
    size_t split_count_ = 0;
    size_t bucket_count_ = 0;  // per segment; a power of two; small only while there is one

    std::vector<Block> blocks_;
    std::vector<KeyBucket*> spare_segments_;
    size_t bytes_ = 0;
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// KeyIndex: finds the row of each key of a sparse table.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/result.h"
#include "lib/key/position_set.h"
#include "lib/store/index/key_bucket.h"
#include "lib/store/index/segment_split.h"
#include "lib/store/memory.h"
#include "lib/store/row_store.h"

namespace weir {

/// Where a walk through the keys of a table stands. It survives whatever happens to the table.
struct KeyCursor {
    uint64_t next = 0;  ///< sparse tables: a hash; dense tables: a key
    bool at_end = false;
    friend bool operator==(const KeyCursor&, const KeyCursor&) = default;
};

struct KeyIndexOptions {
    /// This many keys fit before the index first grows, if there is memory for them.
    size_t expected_keys = 0;
    /// Decides which keys share a bucket. None: drawn at random, so that peers cannot predict it.
    std::optional<uint64_t> seed{};
    KeyCompare compare = best_key_compare();
};

/// Open addressing over buckets of one cache line. Keys come in lists: while one key is compared,
/// the buckets of the next ones are prefetched. Any uint64 may be a key. A removed key leaves
/// nothing behind: keys that had overflowed move back towards their own bucket.
///
/// Buckets are numbered by the leading bits of a hash. They lie in segments of 1 MiB, which are
/// found through a directory. When the index fills, one segment after another is split in two, in
/// the order of their hashes. So growing costs a push a few splits at most, which stream through
/// the L2 cache, and takes memory in small steps. No two keys have the same hash, and the order
/// of hashes never changes. So walks through the index go in this order: they can stop, and
/// continue after keys were added or removed, at the hash that comes next.
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
        return fullest_ + key_count <= comfortable_keys();
    }

    /// Writes the row of each key to `rows`. Missing keys get the next row numbers, in order.
    /// has_room_for(keys.size()) must be true, and next_row() + keys.size() at most kRowCountMax.
    void upsert(std::span<const uint64_t> keys, std::span<uint32_t> rows) noexcept;

    /// Gives the keys whose row is kNoRow the row numbers of `new_rows`, one for each missing key,
    /// and writes these to `rows`, which find() returned for `keys`. If a key is in the list twice,
    /// the second one finds the row of the first; the last row numbers are then not used. Returns
    /// how many were.
    /// Errors:  Errc::kNoMemory; the keys and rows of the index are unchanged
    [[nodiscard]] Result<size_t> insert_missing(std::span<const uint64_t> keys,
                                                std::span<uint32_t> rows,
                                                std::span<const uint32_t> new_rows);

    /// Appends the keys in `positions` and their rows, from `cursor` on, until there are
    /// `key_count_max` or `bucket_count_max` buckets were read, and moves the cursor on. A walk
    /// from the start to the end meets every key once that was there all the time, and every
    /// other key once or not at all.
    void list(KeyCursor& cursor, const PositionSet& positions, size_t key_count_max,
              size_t bucket_count_max, std::vector<uint64_t>& keys,
              std::vector<uint32_t>& rows) const;

    /// Removes keys that are not in `kept`, from `cursor` on in about `bucket_count_max` buckets,
    /// and moves the cursor on. Appends the rows of the removed keys to `freed`. A walk from the
    /// start to the end removes all of them, if no new ones are added meanwhile.
    void remove_outside(KeyCursor& cursor, const PositionSet& kept, size_t bucket_count_max,
                        std::vector<uint32_t>& freed);
    /// The same of keys and rows of which drops(key, row) says so; it is asked once for each.
    using Drops = std::function<bool(uint64_t key, uint32_t row)>;
    void remove_if(KeyCursor& cursor, const Drops& drops, size_t bucket_count_max,
                   std::vector<uint32_t>& freed);

    /// Removes all keys and gives all memory back.
    void clear() noexcept;

    /// The number of keys.
    [[nodiscard]] size_t size() const noexcept { return size_; }

    /// How many were added since the last walk began that removes keys.
    [[nodiscard]] size_t added_in_walk() const noexcept { return walk_.added; }

    /// One past the highest row number that was ever used: what upsert() gives next.
    [[nodiscard]] size_t next_row() const noexcept { return next_row_; }

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
    [[nodiscard]] uint32_t find_one(uint64_t key) const noexcept;

    void put_behind(uint64_t key, uint32_t row_plus_one) const noexcept;
    template <class Put>
    void move_keys(const KeyBucket* from, size_t bucket_count, Put put) const noexcept;

    /// Buckets of one segment, around the place of a hash.
    struct Place {
        KeyBucket* buckets = nullptr;
        size_t bucket = 0;
        uint32_t shift = 0;
    };

    /// What is known of a walk that removes keys. Where it has been, segments are emptier than where
    /// it has not, which still have what it will remove, and get as many new keys.
    struct RemovingWalk {
        uint64_t next = 0;            ///< its cursor
        bool has_seen_all = false;    ///< from the first hash to there, in segments of one shape
        size_t fullest = 0;           ///< as KeyIndex::fullest_, of the segments behind it
        size_t in_segment = 0;        ///< keys that it left in the segment where it is
        size_t added_to_segment = 0;  ///< to the index, since it came there
        size_t added = 0;             ///< since it began
    };

    void note_added(size_t key_count) noexcept {
        size_ += key_count;
        fullest_ += key_count;
        walk_.fullest += key_count;
        walk_.added_to_segment += key_count;
        walk_.added += key_count;
    }

    void begin_to_remove(const KeyCursor& cursor) noexcept;
    void end_segment(const Place& place) noexcept;
    void end_to_remove(const KeyCursor& cursor) noexcept;
    [[nodiscard]] Place place_of(uint64_t hash) const noexcept;
    [[nodiscard]] bool may_have_strangers(const Place& place) const noexcept;
    template <class Use>
    void each_key_at_home(const Place& place, uint64_t first_hash, Use use) const;
    template <class Drop>
    size_t remove_in_chain(const Place& place, size_t head, Drop drop);
    template <class Drop>
    void remove(KeyCursor& cursor, size_t bucket_count_max, std::vector<uint32_t>& freed,
                Drop drops);

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
    /// The number of keys that there would be if all segments were as full as the fullest one: at least
    /// size_, and what keeps a segment from getting more keys than it has places for.
    size_t fullest_ = 0;
    RemovingWalk walk_;
    size_t next_row_ = 0;

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

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Assignment: which shard owns which part of the ring, in one epoch.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/result.h"
#include "lib/key/key_range.h"
#include "lib/key/position_set.h"

namespace weir {

/// The numbers that an assignment is made from; the same numbers make the same ring everywhere.
struct RingShape {
    uint32_t server_count = 1;
    uint32_t shards_per_server = 1;
    uint32_t points_per_shard = 16;  ///< virtual nodes; some shards get a few more
    uint64_t seed = 1;
    friend bool operator==(const RingShape&, const RingShape&) noexcept = default;
};

struct ShardPlace {
    uint32_t server = 0;
    uint32_t shard = 0;  ///< within the server
    friend bool operator==(ShardPlace, ShardPlace) noexcept = default;
};

/// Positions `first`..`last` (both included) and the number of the shard that owns them all.
struct RingSegment {
    uint64_t first = 0;
    uint64_t last = 0;
    uint32_t owner = 0;
    friend bool operator==(RingSegment, RingSegment) noexcept = default;
};

/// Keys of a dense table and the number of the shard that owns them all.
struct KeySegment {
    KeyRange keys;
    uint32_t owner = 0;
    friend bool operator==(KeySegment, KeySegment) noexcept = default;
};

/// A hash ring with virtual nodes. A point owns the positions from itself up to the next point.
///
/// The ring is dealt to one shard after another. A shard takes pieces until its share equals that
/// of the others; each piece comes out of the largest piece of the shard that owns most. So the
/// load is even with few points, which gives dense tables long slices. A server that is added
/// takes positions from all others, and none moves between two others.
///
/// Thread: any number of readers; immutable
class Assignment {
public:
    static constexpr uint32_t kPointCountMax = 1U << 16;

    /// Errors: Errc::kInvalidArgument if a count is 0, or if the counts multiply to more than
    ///         kPointCountMax
    [[nodiscard]] static Result<Assignment> make(uint32_t epoch, const RingShape& shape);

    [[nodiscard]] uint32_t epoch() const noexcept { return epoch_; }

    [[nodiscard]] const RingShape& shape() const noexcept { return shape_; }

    /// Shards of all servers. The number of a shard is server * shards_per_server + shard.
    [[nodiscard]] uint32_t shard_count() const noexcept {
        return shape_.server_count * shape_.shards_per_server;
    }

    [[nodiscard]] ShardPlace place(uint32_t owner) const noexcept {
        return {owner / shape_.shards_per_server, owner % shape_.shards_per_server};
    }

    /// The number of the shard that owns `position`.
    [[nodiscard]] uint32_t owner(uint64_t position) const noexcept {
        return segments_[segment_index(position)].owner;
    }

    /// The longest segment around `position` that has one owner.
    [[nodiscard]] const RingSegment& segment(uint64_t position) const noexcept {
        return segments_[segment_index(position)];
    }

    /// The whole ring in ascending order; neighbours have different owners.
    [[nodiscard]] std::span<const RingSegment> segments() const noexcept { return segments_; }

    /// `range`, cut where the owner changes.
    [[nodiscard]] std::vector<RingSegment> split(PositionRange range) const;

    /// `keys` of a dense table of `key_count` keys, cut where the owner changes. Every key is in
    /// exactly one piece; keys beyond the table are left out.
    [[nodiscard]] std::vector<KeySegment> split_dense(KeyRange keys, uint64_t key_count) const;

    /// All positions that one shard owns.
    [[nodiscard]] PositionSet owned(uint32_t owner) const;

private:
    Assignment(uint32_t epoch, const RingShape& shape);

    [[nodiscard]] size_t segment_index(uint64_t position) const noexcept {
        // slice_ has the segment at the beginning of each equal slice of the ring.
        size_t i = slice_[position >> shift_];
        while (segments_[i].last < position)
            ++i;
        return i;
    }

    uint32_t epoch_;
    RingShape shape_;
    std::vector<RingSegment> segments_;
    std::vector<uint32_t> slice_;
    uint32_t shift_ = 63;
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// PositionSet: the parts of the ring that one shard owns, with a fast contains().

#include <cstdint>
#include <span>
#include <vector>

#include "lib/key/key_range.h"
#include "lib/key/position.h"

namespace weir {

/// Disjoint position ranges in ascending order. Thread: one writer, or many readers.
class PositionSet {
public:
    /// The empty set.
    PositionSet() : PositionSet(std::span<const PositionRange>()) {}

    /// Sorts `ranges`, and merges those that touch or overlap.
    explicit PositionSet(std::span<const PositionRange> ranges);
    [[nodiscard]] static PositionSet whole_ring();

    [[nodiscard]] std::span<const PositionRange> ranges() const noexcept { return ranges_; }

    [[nodiscard]] bool is_whole_ring() const noexcept {
        return ranges_.size() == 1 && ranges_.front() == PositionRange{};
    }

    [[nodiscard]] bool contains(uint64_t position) const noexcept {
        // slice_ holds, for each slice of the ring, the first range that ends in or after it.
        size_t i = slice_[position >> shift_];
        while (i < ranges_.size() && ranges_[i].last < position)
            ++i;
        return i < ranges_.size() && ranges_[i].first <= position;
    }

    /// Whether every position of `range` is in the set.
    [[nodiscard]] bool covers(PositionRange range) const noexcept {
        size_t i = slice_[range.first >> shift_];
        while (i < ranges_.size() && ranges_[i].last < range.first)
            ++i;
        return i < ranges_.size() && ranges_[i].first <= range.first &&
               range.last <= ranges_[i].last;
    }

    /// The positions of this set and of `other`.
    [[nodiscard]] PositionSet with(const PositionSet& other) const;
    /// The positions of this set that are not in `other`.
    [[nodiscard]] PositionSet without(const PositionSet& other) const;

    [[nodiscard]] bool intersects(const PositionSet& other) const noexcept;

    /// The keys of a dense table whose positions are in the set, ascending. Empty ranges are left
    /// out; adjacent ones are merged.
    [[nodiscard]] std::vector<KeyRange> dense_keys(uint64_t key_count) const;

    friend bool operator==(const PositionSet& a, const PositionSet& b) noexcept {
        return a.ranges_ == b.ranges_;
    }

private:
    std::vector<PositionRange> ranges_;
    std::vector<uint32_t> slice_;
    uint32_t shift_ = 63;
};

}  // namespace weir

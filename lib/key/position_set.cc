// SPDX-License-Identifier: Apache-2.0
#include "lib/key/position_set.h"

#include <algorithm>
#include <bit>

namespace weir {

PositionSet::PositionSet(std::span<const PositionRange> ranges) {
    std::vector<PositionRange> sorted(ranges.begin(), ranges.end());
    std::sort(sorted.begin(), sorted.end(),
              [](PositionRange a, PositionRange b) { return a.first < b.first; });
    for (const PositionRange range : sorted) {
        WEIR_CHECK(range.first <= range.last);
        const bool touches = !ranges_.empty() && (ranges_.back().last == ~uint64_t{0} ||
                                                  range.first <= ranges_.back().last + 1);
        if (touches) {
            ranges_.back().last = std::max(ranges_.back().last, range.last);
        } else {
            ranges_.push_back(range);
        }
    }
    // Four slices per range: most slices then overlap at most one range, and the scan in
    // contains() is short.
    const auto bits = static_cast<uint32_t>(std::bit_width(ranges_.size()) + 2);
    shift_ = 64 - bits;
    slice_.resize(size_t{1} << bits);
    uint32_t i = 0;
    for (size_t slice = 0; slice < slice_.size(); ++slice) {
        while (i < ranges_.size() && ranges_[i].last < static_cast<uint64_t>(slice) << shift_)
            ++i;
        slice_[slice] = i;
    }
}

PositionSet PositionSet::whole_ring() {
    const PositionRange all;
    return PositionSet(std::span(&all, 1));
}

PositionSet PositionSet::with(const PositionSet& other) const {
    std::vector<PositionRange> all = ranges_;
    all.insert(all.end(), other.ranges_.begin(), other.ranges_.end());
    return PositionSet(all);
}

PositionSet PositionSet::without(const PositionSet& other) const {
    std::vector<PositionRange> rest;
    auto cut = other.ranges_.begin();
    for (PositionRange range : ranges_) {
        while (cut != other.ranges_.end() && cut->last < range.first)
            ++cut;
        bool any_left = true;
        for (auto at = cut; at != other.ranges_.end() && at->first <= range.last; ++at) {
            if (at->first > range.first) rest.push_back({range.first, at->first - 1});
            any_left = at->last < range.last;
            if (!any_left) break;
            range.first = at->last + 1;
        }
        if (any_left) rest.push_back(range);
    }
    return PositionSet(rest);
}

bool PositionSet::intersects(const PositionSet& other) const noexcept {
    auto theirs = other.ranges_.begin();
    for (const PositionRange range : ranges_) {
        while (theirs != other.ranges_.end() && theirs->last < range.first)
            ++theirs;
        if (theirs == other.ranges_.end()) return false;
        if (theirs->first <= range.last) return true;
    }
    return false;
}

std::vector<KeyRange> PositionSet::dense_keys(uint64_t key_count) const {
    std::vector<KeyRange> keys;
    if (key_count == 0) return keys;
    const PositionMap map = PositionMap::dense(key_count);
    for (const PositionRange range : ranges_) {
        const KeyRange piece{map.first_key_at(range.first), map.end_key_at(range.last)};
        if (piece.empty()) continue;
        if (!keys.empty() && keys.back().end == piece.begin) {
            keys.back().end = piece.end;
        } else {
            keys.push_back(piece);
        }
    }
    return keys;
}

}  // namespace weir

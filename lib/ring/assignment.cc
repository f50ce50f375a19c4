// SPDX-License-Identifier: Apache-2.0
#include "lib/ring/assignment.h"

#include <algorithm>
#include <bit>

#include <fmt/core.h>

#include "lib/base/random.h"

namespace weir {
namespace {

constexpr uint128 kRing = static_cast<uint128>(1) << 64;

/// Deals out the ring, as Assignment describes.
class Dealer {
public:
    explicit Dealer(const RingShape& shape) : shape_(shape) {
        const uint32_t points = shape.points_per_shard;
        std::vector<Piece> pieces;
        for (uint32_t i = 0; i < points; ++i) {
            const uint128 begin = kRing * i / points;
            const uint128 end = kRing * (i + 1) / points;
            pieces.push_back({static_cast<uint64_t>(begin), end - begin});
        }
        owned_.push_back({kRing, std::move(pieces)});
    }

    /// Gives the next shard pieces until it has an equal share of the ring.
    void add_shard() {
        const uint128 share = kRing / (owned_.size() + 1);
        Owned fresh{0, {}};
        const uint128 piece_max = share / shape_.points_per_shard + 1;
        const uint128 negligible = share >> 20;
        while (share - fresh.total > negligible) {
            Owned& rich =
                *std::max_element(owned_.begin(), owned_.end(),
                                  [](const Owned& a, const Owned& b) { return a.total < b.total; });
            Piece& piece = largest(rich);
            // The donor's surplus, within limits: a shard gets at most four pieces per point.
            const uint128 surplus = std::clamp(rich.total - share, piece_max / 4, piece_max);
            const uint128 taken = std::min({surplus, share - fresh.total, piece.size - 1});
            piece.size -= taken;
            rich.total -= taken;
            fresh.total += taken;
            fresh.pieces.push_back({piece.begin + static_cast<uint64_t>(piece.size), taken});
        }
        owned_.push_back(std::move(fresh));
    }

    [[nodiscard]] std::vector<RingSegment> segments() const {
        std::vector<RingSegment> all;
        for (uint32_t owner = 0; owner < owned_.size(); ++owner) {
            for (const Piece& piece : owned_[owner].pieces) {
                all.push_back(
                    {piece.begin, piece.begin + static_cast<uint64_t>(piece.size - 1), owner});
            }
        }
        std::sort(all.begin(), all.end(),
                  [](const RingSegment& a, const RingSegment& b) { return a.first < b.first; });
        std::vector<RingSegment> merged;
        for (const RingSegment& segment : all) {
            if (!merged.empty() && merged.back().owner == segment.owner) {
                merged.back().last = segment.last;
            } else {
                merged.push_back(segment);
            }
        }
        return merged;
    }

private:
    struct Piece {
        uint64_t begin;
        uint128 size;
    };

    struct Owned {
        uint128 total;
        std::vector<Piece> pieces;
    };

    /// The largest piece; among equals the seed decides.
    Piece& largest(Owned& owned) const {
        return *std::max_element(
            owned.pieces.begin(), owned.pieces.end(), [this](const Piece& a, const Piece& b) {
                if (a.size != b.size) return a.size < b.size;
                return mix64(a.begin ^ shape_.seed) < mix64(b.begin ^ shape_.seed);
            });
    }

    RingShape shape_;
    std::vector<Owned> owned_;
};

}  // namespace

Result<Assignment> Assignment::make(uint32_t epoch, const RingShape& shape) {
    const uint128 points =
        static_cast<uint128>(shape.server_count) * shape.shards_per_server * shape.points_per_shard;
    if (points == 0 || points > kPointCountMax) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("ring: {} servers x {} shards x {} points: each count must be at "
                                 "least 1 and their product at most {}",
                                 shape.server_count, shape.shards_per_server,
                                 shape.points_per_shard, kPointCountMax));
    }
    return Assignment(epoch, shape);
}

Assignment::Assignment(uint32_t epoch, const RingShape& shape) : epoch_(epoch), shape_(shape) {
    Dealer dealer(shape);
    for (uint32_t shard = 1; shard < shard_count(); ++shard)
        dealer.add_shard();
    segments_ = dealer.segments();
    const auto bits = static_cast<uint32_t>(std::bit_width(segments_.size()) + 2);
    shift_ = 64 - bits;
    slice_.resize(size_t{1} << bits);
    uint32_t i = 0;
    for (size_t slice = 0; slice < slice_.size(); ++slice) {
        while (segments_[i].last < static_cast<uint64_t>(slice) << shift_)
            ++i;
        slice_[slice] = i;
    }
}

std::vector<RingSegment> Assignment::split(PositionRange range) const {
    std::vector<RingSegment> pieces;
    if (range.first > range.last) return pieces;
    for (size_t i = segment_index(range.first);
         i < segments_.size() && segments_[i].first <= range.last; ++i) {
        pieces.push_back({std::max(segments_[i].first, range.first),
                          std::min(segments_[i].last, range.last), segments_[i].owner});
    }
    return pieces;
}

std::vector<KeySegment> Assignment::split_dense(KeyRange keys, uint64_t key_count) const {
    std::vector<KeySegment> pieces;
    keys = intersect(keys, {0, key_count});
    if (keys.empty()) return pieces;
    const PositionMap map = PositionMap::dense(key_count);
    for (size_t i = segment_index(map.position(keys.begin)); !keys.empty(); ++i) {
        const KeyRange piece{keys.begin, std::min(keys.end, map.end_key_at(segments_[i].last))};
        if (piece.empty()) continue;  // no key lies in this segment
        if (!pieces.empty() && pieces.back().owner == segments_[i].owner) {
            pieces.back().keys.end = piece.end;
        } else {
            pieces.push_back({piece, segments_[i].owner});
        }
        keys.begin = piece.end;
    }
    return pieces;
}

PositionSet Assignment::owned(uint32_t owner) const {
    std::vector<PositionRange> ranges;
    for (const RingSegment& segment : segments_) {
        if (segment.owner == owner) ranges.push_back({segment.first, segment.last});
    }
    return PositionSet(ranges);
}

}  // namespace weir

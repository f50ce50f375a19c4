// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SegmentList: the segments of the ring that a shard holds, whatever their role, in ascending
/// order. TouchedSegments: those of them that the keys of a request lie in.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/check.h"
#include "lib/key/position.h"

namespace weir {

/// The segments `begin` .. `end - 1` of a SegmentList.
struct SegmentRun {
    uint32_t begin = 0;
    uint32_t end = 0;

    [[nodiscard]] constexpr bool empty() const noexcept { return begin >= end; }

    friend constexpr bool operator==(SegmentRun, SegmentRun) noexcept = default;
};

/// A new view makes a new list with a higher generation. Indices and runs are valid for one
/// generation only.
///
/// Thread: any number of readers; immutable
class SegmentList {
public:
    static constexpr size_t kCountMax = size_t{1} << 16;
    static constexpr uint32_t kNone = ~uint32_t{0};

    /// A shard that holds nothing.
    SegmentList() : SegmentList(0, {}) {}

    /// Sorts `segments`, which must be disjoint and at most kCountMax.
    SegmentList(uint64_t generation, std::vector<PositionRange> segments);

    [[nodiscard]] uint64_t generation() const noexcept { return generation_; }

    [[nodiscard]] std::span<const PositionRange> segments() const noexcept { return segments_; }

    [[nodiscard]] uint32_t count() const noexcept {
        return static_cast<uint32_t>(segments_.size());
    }

    /// The index of the segment that holds `position`, or kNone.
    [[nodiscard]] uint32_t find(uint64_t position) const noexcept {
        const uint32_t i = first_ending_at(position);
        return i < count() && segments_[i].first <= position ? i : kNone;
    }

    /// The segments that hold some position of `range`.
    [[nodiscard]] SegmentRun run_of(PositionRange range) const noexcept;

    [[nodiscard]] SegmentRun all() const noexcept { return {0, count()}; }

    /// Whether every position of `range` is held.
    [[nodiscard]] bool covers(PositionRange range) const noexcept;

    /// The positions from the first of a run's segments up to the next segment that is held. The
    /// reach of the first segment begins at 0, that of the last one ends with the ring. So the
    /// reaches of all segments cover the ring once. `run` must not be empty.
    [[nodiscard]] PositionRange reach(SegmentRun run) const noexcept {
        WEIR_CHECK(run.end <= count());
        return {run.begin == 0 ? 0 : segments_[run.begin].first,
                run.end == count() ? ~uint64_t{0} : segments_[run.end].first - 1};
    }

    /// `range`, which must be covered, made longer where a reach is longer than its segment.
    [[nodiscard]] PositionRange reach(PositionRange range) const noexcept;

private:
    /// The index of the first segment that ends at or after `position`; count() if there is none.
    [[nodiscard]] uint32_t first_ending_at(uint64_t position) const noexcept {
        // slice_ has that index for the beginning of each equal slice of the ring.
        uint32_t i = slice_[position >> shift_];
        while (i < count() && segments_[i].last < position)
            ++i;
        return i;
    }

    uint64_t generation_;
    std::vector<PositionRange> segments_;
    std::vector<uint32_t> slice_;
    uint32_t shift_ = 63;
};

/// Runs of segments, ascending, with at least one segment between two of them. Small enough to be
/// remembered with a key list.
class TouchedSegments {
public:
    TouchedSegments() = default;

    [[nodiscard]] std::span<const SegmentRun> runs() const noexcept { return runs_; }

    /// Of the list that the runs refer to.
    [[nodiscard]] uint64_t generation() const noexcept { return generation_; }

    friend bool operator==(const TouchedSegments&, const TouchedSegments&) = default;

private:
    friend class SegmentMarks;
    uint64_t generation_ = 0;
    std::vector<SegmentRun> runs_;
};

/// Collects the segments that keys lie in. Allocates nothing once warm.
///
/// Thread: one
class SegmentMarks {
public:
    /// Forgets all marks. The next ones are segments of `held`.
    void reset(const SegmentList& held);

    /// `index`: of a segment of the list; in any order, and as often as keys lie in it.
    void mark(uint32_t index) noexcept {
        uint64_t& word = words_[index / kBits];
        const uint64_t bit = uint64_t{1} << (index % kBits);
        unmarked_ -= (word & bit) == 0;
        word |= bit;
    }

    /// Whether all segments are marked: no further mark changes anything.
    [[nodiscard]] bool has_all() const noexcept { return unmarked_ == 0; }

    /// What was marked since reset(). Valid until the next call of touched().
    [[nodiscard]] const TouchedSegments& touched();

private:
    static constexpr uint32_t kBits = 64;

    std::vector<uint64_t> words_;
    uint32_t unmarked_ = 0;
    uint64_t generation_ = 0;
    TouchedSegments touched_;
};

}  // namespace weir

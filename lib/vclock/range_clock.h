// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RangeClock: how far one worker has come in one table at one shard: a time for each segment that
/// the shard holds. It decides whether a piece was executed before.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/vclock/clock_times.h"
#include "lib/vclock/segment_list.h"

namespace weir {

/// Times begin at 0. Segments that are neighbours in the shard's list and have equal times are
/// stored as one entry, also if the shard does not hold what lies between them.
///
/// An entry is a position and the time from there on. So a segment that is cut passes its time to
/// both parts without any work, and a part of a segment that is being copied can have a time of
/// its own. Positions that are not held have the time of the segment before them, which means
/// nothing: this is what lets the entries on both sides of a gap be one.
///
/// `held` is the shard's current list. When it changes, adopt() must be called.
///
/// Thread: the shard's. Nothing here blocks; std::bad_alloc is the only exception.
class RangeClock {
public:
    RangeClock() : entries_(1) {}

    /// The time of the segment that holds `position`. A piece whose time is not above that of its
    /// first key was executed before.
    [[nodiscard]] uint64_t at(uint64_t position) const noexcept {
        return entries_[index_at(position)].time;
    }

    /// The same, of the whole of a segment of `held`.
    [[nodiscard]] uint64_t of_segment(const SegmentList& held, uint32_t segment) const noexcept {
        return entries_[index_of(held, segment)].time;
    }

    /// Raises the times of these segments to `time` where they are below it. Does not allocate
    /// once the clock has had as many entries.
    void raise(const SegmentList& held, SegmentRun run, uint64_t time) {
        if (run.empty()) return;
        const PositionRange reach = held.reach(run);
        const size_t i = index_of(held, run.begin);
        // Mostly the run is just what one entry holds: all segments, or one segment again.
        if (!is_entry(i, reach)) return raise_other_run(held, run, time);
        if (time <= entries_[i].time) return;
        entries_[i].time = time;
        if (entries_.size() > 1) merge_around(i);
    }

    /// `touched` must be of the generation of `held`. One pass over its runs and the entries.
    void raise(const SegmentList& held, const TouchedSegments& touched, uint64_t time);

    /// The shard holds `after` now instead of `before`: what was added has time 0, what is gone is
    /// forgotten, everything else keeps its time, however it was cut.
    void adopt(const SegmentList& before, const SegmentList& after);

    /// The times of `range`, which must be covered by `held`, as WorkerTimes has them.
    [[nodiscard]] std::vector<ClockStep> part(const SegmentList& held, PositionRange range) const;
    /// Sets the times of `range`, which must be covered by `held`, whatever they were: `steps` as
    /// in WorkerTimes, or none for time 0.
    void set(const SegmentList& held, PositionRange range, std::span<const ClockStep> steps);

    /// Ascending; the first entry is at position 0, and neighbours have different times.
    [[nodiscard]] std::span<const ClockStep> entries() const noexcept { return entries_; }

    /// Memory beside the object itself.
    [[nodiscard]] size_t bytes() const noexcept { return entries_.capacity() * sizeof(ClockStep); }

    friend bool operator==(const RangeClock& a, const RangeClock& b) noexcept {
        return a.entries_ == b.entries_;
    }

private:
    [[nodiscard]] size_t index_at(uint64_t position) const noexcept {
        const size_t i = recent_;
        const bool hit = i < entries_.size() && entries_[i].from <= position &&
                         (i + 1 == entries_.size() || position < entries_[i + 1].from);
        return hit ? i : search(position);
    }

    /// The entry in which a segment begins. Random pushes of single keys soon leave an entry for each
    /// segment, at the place of the segment.
    [[nodiscard]] size_t index_of(const SegmentList& held, uint32_t segment) const noexcept {
        const uint64_t first = segment == 0 ? 0 : held.segments()[segment].first;
        const size_t i = std::min<size_t>(segment, entries_.size() - 1);
        return entries_[i].from <= first && first <= last_of(i) ? i : index_at(first);
    }

    [[nodiscard]] size_t search(uint64_t position) const noexcept;

    /// The last position of entry `i`.
    [[nodiscard]] uint64_t last_of(size_t i) const noexcept {
        return i + 1 == entries_.size() ? ~uint64_t{0} : entries_[i + 1].from - 1;
    }

    [[nodiscard]] bool is_entry(size_t i, PositionRange reach) const noexcept {
        return entries_[i].from == reach.first && last_of(i) == reach.last;
    }

    void raise_other_run(const SegmentList& held, SegmentRun run, uint64_t time);
    void raise_runs(const SegmentList& held, std::span<const SegmentRun> runs, uint64_t time);
    size_t split(uint64_t position);

    /// Makes entry `i` a part of the one before it if their times are equal.
    void merge(size_t i) {
        if (entries_[i].time == entries_[i - 1].time) [[unlikely]]
            remove(i);
    }

    void merge_around(size_t i) {
        if (i + 1 < entries_.size()) merge(i + 1);
        if (i > 0) merge(i);
    }

    void remove(size_t i);

    std::vector<ClockStep> entries_;
    mutable size_t recent_ = 0;  ///< the entry that was found last: workers often push it again
};

}  // namespace weir

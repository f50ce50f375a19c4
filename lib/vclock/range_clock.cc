// SPDX-License-Identifier: Apache-2.0
#include "lib/vclock/range_clock.h"

#include <algorithm>

#include "lib/base/check.h"

namespace weir {
namespace {

/// Appends entries, merging neighbours with equal times.
class ClockEntries {
public:
    void add(uint64_t from, uint64_t time) {
        if (all_.empty()) from = 0;
        if (all_.empty() || all_.back().time != time) all_.push_back({from, time});
    }

    std::vector<ClockStep> take() && {
        if (all_.empty()) all_.emplace_back();
        return std::move(all_);
    }

private:
    std::vector<ClockStep> all_;
};

}  // namespace

size_t RangeClock::search(uint64_t position) const noexcept {
    const auto after = std::ranges::upper_bound(entries_, position, {}, &ClockStep::from);
    return recent_ = static_cast<size_t>(after - entries_.begin()) - 1;
}

void RangeClock::raise(const SegmentList& held, const TouchedSegments& touched, uint64_t time) {
    WEIR_CHECK(touched.generation() == held.generation());
    if (touched.runs().size() == 1) return raise(held, touched.runs().front(), time);
    if (!touched.runs().empty()) raise_runs(held, touched.runs(), time);
}

/// One that is not just what an entry holds.
void RangeClock::raise_other_run(const SegmentList& held, SegmentRun run, uint64_t time) {
    raise_runs(held, std::span(&run, 1), time);
}

void RangeClock::raise_runs(const SegmentList& held, std::span<const SegmentRun> runs,
                            uint64_t time) {
    // A run adds an entry at its beginning and one behind its end, at most. The entries are moved
    // behind the room for these, and from there to the front, one by one: none is overwritten before.
    const size_t room = 2 * runs.size();
    const size_t count = entries_.size();
    entries_.resize(room + count);
    std::copy_backward(entries_.begin(), entries_.begin() + static_cast<ptrdiff_t>(count),
                       entries_.end());
    size_t kept = 0;  // entries before this index are final
    const auto keep = [&](uint64_t from, uint64_t entry_time) {
        if (kept == 0 || entries_[kept - 1].time != entry_time)
            entries_[kept++] = {from, entry_time};
    };
    size_t r = 0;
    PositionRange reach = held.reach(runs[0]);
    for (size_t i = room; i < entries_.size(); ++i) {
        const ClockStep entry = entries_[i];
        const uint64_t last = last_of(i);
        uint64_t from = entry.from;
        bool is_over = false;
        while (!is_over && r < runs.size() && reach.first <= last) {
            if (from < reach.first) keep(from, entry.time);
            keep(std::max(from, reach.first), std::max(entry.time, time));
            is_over = reach.last >= last;
            from = reach.last + 1;
            if (reach.last <= last && ++r < runs.size()) reach = held.reach(runs[r]);
        }
        if (!is_over) keep(from, entry.time);
    }
    entries_.resize(kept);
}

/// The index of the entry that begins at `position`; it is made if there is none.
size_t RangeClock::split(uint64_t position) {
    const size_t i = index_at(position);
    if (entries_[i].from == position) return i;
    entries_.insert(entries_.begin() + static_cast<ptrdiff_t>(i) + 1, {position, entries_[i].time});
    return i + 1;
}

void RangeClock::remove(size_t i) {
    entries_.erase(entries_.begin() + static_cast<ptrdiff_t>(i));
}

void RangeClock::adopt(const SegmentList& before, const SegmentList& after) {
    ClockEntries adopted;
    for (const PositionRange segment : after.segments()) {
        uint64_t next = segment.first;  // the first position that has not been looked at
        bool whole = false;
        const SegmentRun run = before.run_of(segment);
        for (uint32_t s = run.begin; s < run.end; ++s) {
            const uint64_t first = std::max(before.segments()[s].first, segment.first);
            const uint64_t last = std::min(before.segments()[s].last, segment.last);
            if (next < first) adopted.add(next, 0);
            for (size_t i = index_at(first); i < entries_.size() && entries_[i].from <= last; ++i)
                adopted.add(std::max(first, entries_[i].from), entries_[i].time);
            whole = last == segment.last;
            next = last + 1;
        }
        if (!whole) adopted.add(next, 0);
    }
    entries_ = std::move(adopted).take();
}

std::vector<ClockStep> RangeClock::part(const SegmentList& held, PositionRange range) const {
    WEIR_CHECK(held.covers(range));
    std::vector<ClockStep> steps;
    for (size_t i = index_at(range.first); i < entries_.size() && entries_[i].from <= range.last;
         ++i) {
        steps.push_back({std::max(entries_[i].from, range.first), entries_[i].time});
    }
    return steps;
}

void RangeClock::set(const SegmentList& held, PositionRange range,
                     std::span<const ClockStep> steps) {
    WEIR_CHECK(held.covers(range));
    const ClockStep zero{range.first, 0};
    if (steps.empty()) steps = std::span(&zero, 1);
    WEIR_CHECK(steps.front().from == range.first && steps.back().from <= range.last);
    const PositionRange reach = held.reach(range);
    if (const size_t i = index_at(reach.first); steps.size() == 1 && is_entry(i, reach)) {
        entries_[i].time = steps.front().time;
        return merge_around(i);
    }
    const size_t begin = split(reach.first);
    size_t end = reach.last == ~uint64_t{0} ? entries_.size() : split(reach.last + 1);
    // Makes room for exactly the steps between the two.
    const size_t count = steps.size();
    const auto at = entries_.begin() + static_cast<ptrdiff_t>(begin);
    if (end - begin > count) {
        entries_.erase(at, at + static_cast<ptrdiff_t>(end - begin - count));
    } else {
        entries_.insert(at, count - (end - begin), ClockStep{});
    }
    end = begin + count;
    std::ranges::copy(steps, entries_.begin() + static_cast<ptrdiff_t>(begin));
    entries_[begin].from = reach.first;
    if (end < entries_.size()) merge(end);
    if (begin > 0) merge(begin);
}

}  // namespace weir

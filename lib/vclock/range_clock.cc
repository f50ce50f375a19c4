// SPDX-License-Identifier: Apache-2.0
#include "lib/vclock/range_clock.h"

#include <algorithm>

#include "lib/base/check.h"

namespace weir {
namespace {

/// Appends entries, merging neighbours with equal times.
class Entries {
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
    split(held, runs);
    size_t kept = 0;  // entries before this index are final
    size_t r = 0;
    PositionRange reach = held.reach(runs[0]);
    for (ClockStep entry : entries_) {
        while (reach.last < entry.from && r + 1 < runs.size())
            reach = held.reach(runs[++r]);
        if (reach.contains(entry.from)) entry.time = std::max(entry.time, time);
        if (kept == 0 || entries_[kept - 1].time != entry.time) entries_[kept++] = entry;
    }
    entries_.resize(kept);
}

/// Afterwards an entry begins at the beginning and behind the end of each run's reach.
void RangeClock::split(const SegmentList& held, std::span<const SegmentRun> runs) {
    // What has to be added is counted first and put in from behind, so that each entry moves once.
    size_t missing = 0;
    size_t i = 0;
    const auto count = [&](uint64_t from) {
        while (i < entries_.size() && entries_[i].from < from)
            ++i;
        missing += i == entries_.size() || entries_[i].from != from;
    };
    for (const SegmentRun run : runs) {
        const PositionRange reach = held.reach(run);
        count(reach.first);
        if (reach.last != ~uint64_t{0}) count(reach.last + 1);
    }
    size_t from = entries_.size();  // entries below this index have not moved yet
    entries_.resize(entries_.size() + missing);
    size_t to = entries_.size();
    const auto put = [&](uint64_t position) {
        while (entries_[from - 1].from > position)
            entries_[--to] = entries_[--from];
        if (entries_[from - 1].from != position)
            entries_[--to] = {position, entries_[from - 1].time};
    };
    for (size_t r = runs.size(); r-- > 0 && to != from;) {
        const PositionRange reach = held.reach(runs[r]);
        if (reach.last != ~uint64_t{0}) put(reach.last + 1);
        put(reach.first);
    }
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
    Entries adopted;
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

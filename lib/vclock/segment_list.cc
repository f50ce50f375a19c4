// SPDX-License-Identifier: Apache-2.0
#include "lib/vclock/segment_list.h"

#include <algorithm>
#include <bit>

#include "lib/base/check.h"

namespace weir {

SegmentList::SegmentList(uint64_t generation, std::vector<PositionRange> segments)
    : generation_(generation), segments_(std::move(segments)) {
    WEIR_CHECK(segments_.size() <= kCountMax);
    std::ranges::sort(segments_, {}, &PositionRange::first);
    for (size_t i = 0; i < segments_.size(); ++i) {
        WEIR_CHECK(segments_[i].first <= segments_[i].last);
        WEIR_CHECK(i == 0 || segments_[i - 1].last < segments_[i].first);
    }
    // Four slices per segment: the scan in first_ending_at() is short.
    const auto bits = static_cast<uint32_t>(std::bit_width(segments_.size()) + 2);
    shift_ = 64 - bits;
    slice_.resize(size_t{1} << bits);
    uint32_t i = 0;
    for (size_t slice = 0; slice < slice_.size(); ++slice) {
        while (i < count() && segments_[i].last < static_cast<uint64_t>(slice) << shift_)
            ++i;
        slice_[slice] = i;
    }
}

SegmentRun SegmentList::run_of(PositionRange range) const noexcept {
    const uint32_t begin = first_ending_at(range.first);
    uint32_t end = first_ending_at(range.last);
    if (end < count() && segments_[end].first <= range.last) ++end;
    return {begin, std::max(begin, end)};
}

bool SegmentList::covers(PositionRange range) const noexcept {
    const SegmentRun run = run_of(range);
    if (range.first > range.last || run.empty()) return false;
    for (uint32_t i = run.begin + 1; i < run.end; ++i) {
        if (segments_[i].first - 1 != segments_[i - 1].last) return false;
    }
    return segments_[run.begin].first <= range.first && range.last <= segments_[run.end - 1].last;
}

PositionRange SegmentList::reach(PositionRange range) const noexcept {
    const SegmentRun run = run_of(range);
    const PositionRange whole = reach(run);
    if (range.first == segments_[run.begin].first) range.first = whole.first;
    if (range.last == segments_[run.end - 1].last) range.last = whole.last;
    return range;
}

void SegmentMarks::reset(const SegmentList& held) {
    generation_ = held.generation();
    unmarked_ = held.count();
    words_.assign((held.count() + kBits - 1) / kBits, 0);
}

const TouchedSegments& SegmentMarks::touched() {
    touched_.generation_ = generation_;
    touched_.runs_.clear();
    bool in_run = false;
    const auto turn = [&](uint32_t index) {  // a run begins or ends before `index`
        if (in_run) {
            touched_.runs_.back().end = index;
        } else {
            touched_.runs_.push_back({index, index});
        }
        in_run = !in_run;
    };
    for (uint32_t w = 0; w < words_.size(); ++w) {
        // In `turns`, a bit is set where the mark differs from the one before it.
        uint64_t turns = words_[w] ^ (words_[w] << 1 | static_cast<uint64_t>(in_run));
        for (; turns != 0; turns &= turns - 1)
            turn(w * kBits + static_cast<uint32_t>(std::countr_zero(turns)));
    }
    if (in_run) turn(static_cast<uint32_t>(words_.size()) * kBits);
    return touched_;
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "lib/vclock/clock_table.h"

#include <algorithm>

#include "lib/base/check.h"

namespace weir {

RangeClock* ClockTable::of(uint32_t worker) {
    return is_gone(worker) ? nullptr : &clocks_[worker];
}

const RangeClock* ClockTable::find(uint32_t worker) const noexcept {
    const auto found = clocks_.find(worker);
    return found == clocks_.end() ? nullptr : &found->second;
}

void ClockTable::drop_gone(std::span<const uint32_t> members, uint32_t next_worker) {
    WEIR_CHECK(std::ranges::is_sorted(members));
    if (next_worker < next_worker_) return;
    members_.assign(members.begin(), members.end());
    next_worker_ = next_worker;
    std::erase_if(clocks_, [this](const auto& clock) { return is_gone(clock.first); });
}

bool ClockTable::is_gone(uint32_t worker) const noexcept {
    return worker < next_worker_ && !std::ranges::binary_search(members_, worker);
}

void ClockTable::adopt(const SegmentList& before, const SegmentList& after) {
    for (auto& [worker, clock] : clocks_)
        clock.adopt(before, after);
}

ClockTimes ClockTable::part(const SegmentList& held, PositionRange range) const {
    ClockTimes times{range, {}};
    for (const auto& [worker, clock] : clocks_) {
        std::vector<ClockStep> steps = clock.part(held, range);
        if (steps.size() > 1 || steps.front().time > 0)
            times.workers.push_back({worker, std::move(steps)});
    }
    return times;
}

bool ClockTable::take(const SegmentList& held, const ClockTimes& times) {
    if (!held.covers(times.range)) return false;
    auto given = times.workers.begin();
    for (auto& [worker, clock] : clocks_) {  // those that are not listed have time 0
        while (given != times.workers.end() && given->worker < worker)
            ++given;
        if (given == times.workers.end() || given->worker != worker)
            clock.set(held, times.range, {});
    }
    for (const WorkerTimes& one : times.workers) {
        if (RangeClock* const clock = of(one.worker)) clock->set(held, times.range, one.steps);
    }
    return true;
}

size_t ClockTable::bytes() const noexcept {
    constexpr size_t kNodeBytes = 4 * sizeof(void*) + sizeof(decltype(clocks_)::value_type);
    size_t sum = members_.capacity() * sizeof(uint32_t);
    for (const auto& [worker, clock] : clocks_)
        sum += kNodeBytes + clock.bytes();
    return sum;
}

}  // namespace weir

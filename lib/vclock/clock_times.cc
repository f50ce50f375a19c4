// SPDX-License-Identifier: Apache-2.0
#include "lib/vclock/clock_times.h"

namespace weir {
namespace {

/// Whether the steps were all there, and are as WorkerTimes says.
bool decode_steps(ByteReader& from, PositionRange range, std::vector<ClockStep>& steps) {
    const auto count = from.number<uint32_t>();
    if (count == 0 || count > kClockStepsMax) return false;
    steps.push_back({range.first, from.number<uint64_t>()});
    if (count == 1 && steps.front().time == 0) return false;
    while (from.ok() && steps.size() < count) {
        const ClockStep before = steps.back();
        const auto position = from.number<uint64_t>();
        const auto time = from.number<uint64_t>();
        if (position <= before.from || position > range.last || time == before.time) return false;
        steps.push_back({position, time});
    }
    return from.ok();
}

}  // namespace

void ClockTimes::encode(ByteWriter& to) const {
    to.number(range.first).number(range.last).number(static_cast<uint32_t>(workers.size()));
    for (const WorkerTimes& one : workers) {
        to.number(one.worker).number(static_cast<uint32_t>(one.steps.size()));
        to.number(one.steps.front().time);
        for (size_t i = 1; i < one.steps.size(); ++i)
            to.number(one.steps[i].from).number(one.steps[i].time);
    }
}

std::optional<ClockTimes> ClockTimes::decode(ByteReader& from) {
    ClockTimes times;
    times.range.first = from.number<uint64_t>();
    times.range.last = from.number<uint64_t>();
    if (times.range.first > times.range.last) return std::nullopt;
    // Grows as bytes are read: the count alone reserves nothing.
    for (auto count = from.number<uint32_t>(); from.ok() && count > 0; --count) {
        WorkerTimes one;
        one.worker = from.number<uint32_t>();
        if (!times.workers.empty() && one.worker <= times.workers.back().worker)
            return std::nullopt;
        if (!decode_steps(from, times.range, one.steps)) return std::nullopt;
        times.workers.push_back(std::move(one));
    }
    if (!from.ok()) return std::nullopt;
    return times;
}

}  // namespace weir

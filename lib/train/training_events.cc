// SPDX-License-Identifier: Apache-2.0
#include "lib/train/training_events.h"

#include <algorithm>

#include "lib/base/log.h"

namespace weir {

namespace {

using Seconds = std::chrono::duration<double>;

}  // namespace

void TrainingEvents::note_pass(double seconds, Time now) {
    passes_.emplace_back(now, seconds);
}

void TrainingEvents::add(const JobEvent& event, Time now) {
    events_.emplace_back(now - std::chrono::duration_cast<Time::duration>(event.age), event);
}

void TrainingEvents::collect(Client& client, bool is_last) {
    constexpr std::chrono::seconds kEvery(1);
    const Time now = std::chrono::steady_clock::now();
    if (!is_last && now - collected_ < kEvery) return;
    collected_ = now;
    const Result<std::vector<JobEvent>> events = client.take_events();
    if (!events) {
        log(LogLevel::kDebug, "what happened in the job is not known: {}", events.error().text());
        return;
    }
    for (const JobEvent& event : *events)
        add(event, std::chrono::steady_clock::now());
}

double TrainingEvents::seconds_at(Time time) const {
    if (passes_.empty()) return 0;
    const auto next = std::ranges::lower_bound(passes_, time, {}, &std::pair<Time, double>::first);
    if (next == passes_.begin()) {
        return std::max(0.0, next->second - Seconds(next->first - time).count());
    }
    const auto before = std::prev(next);
    const double seconds = before->second + Seconds(time - before->first).count();
    return next == passes_.end() ? seconds : std::min(seconds, next->second);
}

std::vector<TrainingEvent> TrainingEvents::placed() const {
    std::vector<TrainingEvent> placed;
    for (const auto& [time, event] : events_) {
        const bool is_over = !passes_.empty() && time > passes_.back().first;
        if (is_over && event.kind == JobEvent::Kind::kWorkerLeft) continue;
        placed.push_back({seconds_at(time), event.kind, event.number, event.why});
    }
    std::ranges::stable_sort(placed, {}, &TrainingEvent::seconds);
    return placed;
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "lib/manager/members/lost_workers.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/core.h>

namespace weir {
namespace {

/// Workers, or groups of those that say the same. More are counted.
constexpr size_t kNamedLostMax = 4;

}  // namespace

void LostWorkers::add(uint32_t worker, uint32_t rank, LeaveMessage why) {
    ++count_;
    if (workers_.size() == kRememberedMax) return;
    const auto at = std::ranges::lower_bound(workers_, worker, {}, &Worker::number);
    workers_.insert(at, {worker, rank, std::move(why)});
}

LostWorkersMessage LostWorkers::numbers() const {
    LostWorkersMessage message;
    for (const Worker& worker : workers_)
        message.workers.push_back(worker.number);
    return message;
}

Error LostWorkers::error(std::string_view with_what) const {
    const auto stopped =
        std::ranges::find_if(workers_, [](const Worker& w) { return was_stopped(w.end.status); });
    if (stopped != workers_.end()) return {stopped->end.status, stopped->end.why};
    std::string causes;
    std::string echo;
    size_t named = 0;
    size_t others = count_ - workers_.size();
    for (const Worker& worker : workers_) {
        const auto says_the_same = [&](const Worker& other) {
            return &other == &worker ||
                   (other.end.status != Errc::kOk && other.end.status == worker.end.status &&
                    other.end.why == worker.end.why);
        };
        if (&*std::ranges::find_if(workers_, says_the_same) != &worker) continue;
        const auto same = static_cast<size_t>(std::ranges::count_if(workers_, says_the_same));
        const std::string who = same == 1
                                    ? fmt::format("worker {} (rank {})", worker.number, worker.rank)
                                    : fmt::format("{} workers (the first is worker {}, rank {})",
                                                  same, worker.number, worker.rank);
        const std::string text =
            fmt::format("{} {}", who,
                        worker.end.status == Errc::kOk ? "died, or the network to it is cut"
                                                       : "gave up: " + worker.end.why);
        if (worker.end.status == Errc::kPeerLost) {
            if (echo.empty()) echo = text;
        } else if (named == kNamedLostMax) {
            others += same;
        } else {
            causes += (named++ == 0 ? "" : "; ") + text;
        }
    }
    if (others > 0) causes += fmt::format("; and {} more", others);
    std::string& text = named == 0 ? echo : causes;
    // The one that gave up may have said it.
    const bool says_what = text.find("`resume`") != std::string::npos;
    if (!with_what.empty() && !says_what && count_ > 0)
        text += fmt::format("; start the job again{}", with_what);
    return {Errc::kPeerLost, text};
}

}  // namespace weir

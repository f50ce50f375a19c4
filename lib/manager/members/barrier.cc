// SPDX-License-Identifier: Apache-2.0
#include "lib/manager/members/barrier.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace weir {

void Barrier::remove(uint32_t worker) {
    const auto at = workers_.find(worker);
    if (at == workers_.end()) return;
    cancel(at->second);
    workers_.erase(at);
}

void Barrier::arrive(const Asker& asker) {
    const auto at = workers_.find(asker.worker);
    if (at == workers_.end()) {
        return answer(outbox_, asker, Errc::kUnavailable,
                      encode_text("this worker has left the job"));
    }
    if (at->second) {
        return answer(
            outbox_, asker, Errc::kInvalidArgument,
            encode_text("this worker waits at a barrier already; wait for that call first"));
    }
    at->second = asker;
}

void Barrier::withdraw(const Asker& asker, uint64_t request) {
    const auto at = workers_.find(asker.worker);
    if (at != workers_.end() && at->second && at->second->request == request) cancel(at->second);
    answer(outbox_, asker, Errc::kOk);
}

StatsMessage Barrier::late() const {
    StatsMessage::OpenIteration barrier{.iteration = StatsMessage::OpenIteration::kBarrier};
    for (const auto& [worker, waiting] : workers_) {
        if (!waiting) barrier.add_late(worker);
    }
    StatsMessage message;
    if (barrier.late_count < workers_.size()) message.open.push_back(std::move(barrier));
    return message;
}

void Barrier::settle(const Status& broken) {
    const bool all_wait =
        std::ranges::all_of(workers_, [](const auto& entry) { return entry.second.has_value(); });
    if (broken && !all_wait) return;
    const std::vector<std::byte> body =
        broken ? std::vector<std::byte>{} : encode_text(broken.error().text());
    for (auto& [worker, waiting] : workers_) {
        if (waiting) answer(outbox_, *std::exchange(waiting, std::nullopt), broken.code(), body);
    }
}

void Barrier::cancel(std::optional<Asker>& waiting) {
    if (!waiting) return;
    answer(outbox_, *std::exchange(waiting, std::nullopt), Errc::kCancelled,
           encode_text("this worker's call has ended"));
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "lib/server/iterations.h"

#include <algorithm>
#include <utility>

#include "lib/base/check.h"

namespace weir {

Iterations::Verdict Iterations::judge(uint64_t iteration, uint32_t worker,
                                      uint32_t parts) noexcept {
    if (worker >= workers_.size() || parts == 0) return Verdict::kRefuse;
    if (iteration <= last_closed_) return Verdict::kPast;
    Worker& w = workers_[worker];
    if (iteration > w.last_seen + 1) return Verdict::kSkips;
    w.last_seen = std::max(w.last_seen, iteration);
    if (iteration > open()) return Verdict::kLater;
    const bool as_announced = w.announced == 0 || (w.announced == parts && w.admitted < parts);
    return as_announced ? Verdict::kNow : Verdict::kRefuse;
}

void Iterations::admit(uint32_t worker, uint32_t parts) noexcept {
    workers_[worker].announced = parts;
    ++workers_[worker].admitted;
}

void Iterations::fail(Failure failure) noexcept {
    if (!failure_) failure_ = failure;
}

void Iterations::lose(uint32_t worker) noexcept {
    if (!std::exchange(workers_[worker].lost, true)) ++lost_;
}

bool Iterations::arrived(uint32_t worker) noexcept {
    Worker& w = workers_[worker];
    ++w.arrived;
    WEIR_CHECK(w.arrived <= w.announced);
    if (w.complete()) ++complete_;
    return complete_ == workers_.size();
}

void Iterations::close() {
    if (failure_) {
        failed_.push_back({open(), *failure_});
        if (failed_.size() > kFailuresMax) failed_.pop_front();
        failure_.reset();
    }
    for (Worker& w : workers_) {
        w.announced = 0;
        w.admitted = 0;
        w.arrived = 0;
    }
    complete_ = 0;
    ++last_closed_;
}

std::optional<Iterations::Failure> Iterations::failure_of(uint64_t iteration) const noexcept {
    if (iteration <= last_closed_) {
        const auto found = std::find_if(failed_.begin(), failed_.end(), [&](const Closed& closed) {
            return closed.iteration == iteration;
        });
        return found == failed_.end() ? std::nullopt : std::optional(found->failure);
    }
    if (iteration == open() && failure_) return failure_;
    for (uint32_t worker = 0; lost_ > 0 && worker < workers_.size(); ++worker) {
        const Worker& w = workers_[worker];
        if (w.lost && (iteration > open() || !w.complete())) {
            return Failure{Errc::kPeerLost, worker};
        }
    }
    return std::nullopt;
}

std::optional<Iterations::Failure> Iterations::failure_for(uint64_t iteration,
                                                           uint32_t worker) const noexcept {
    if (const auto failure = failure_of(iteration)) return failure;
    const bool gave_up = iteration > last_closed_ && workers_[worker].lost;
    return gave_up ? std::optional(Failure{Errc::kPeerLost, worker}) : std::nullopt;
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "lib/server/iteration_progress.h"

#include <algorithm>

#include "lib/base/check.h"

namespace weir {

IterationProgress::IterationProgress(uint32_t worker_count, uint32_t window)
    : window_(window), last_seen_(worker_count), lost_(worker_count) {
    WEIR_CHECK(window > 0);
    for (Open& open : window_)
        open.parts.resize(worker_count);
}

IterationProgress::Verdict IterationProgress::judge(uint64_t iteration, uint32_t worker,
                                                    uint32_t parts) noexcept {
    if (worker >= last_seen_.size() || parts == 0) return Verdict::kRefuse;
    if (iteration <= last_closed_) return Verdict::kPast;
    uint64_t& last_seen = last_seen_[worker];
    if (iteration > last_seen + 1) return Verdict::kSkips;
    last_seen = std::max(last_seen, iteration);
    if (iteration > last_open()) return Verdict::kLater;
    const Parts& of = open(iteration).parts[worker];
    const bool as_announced = of.announced == 0 || (of.announced == parts && of.admitted < parts);
    return as_announced ? Verdict::kNow : Verdict::kRefuse;
}

void IterationProgress::admit(uint64_t iteration, uint32_t worker, uint32_t parts) noexcept {
    Parts& of = open(iteration).parts[worker];
    of.announced = parts;
    ++of.admitted;
}

void IterationProgress::withdraw(uint64_t iteration, uint32_t worker) noexcept {
    --open(iteration).parts[worker].admitted;
}

void IterationProgress::fail(uint64_t iteration, Failure failure) noexcept {
    std::optional<Failure>& first = open(iteration).failure;
    if (!first) first = failure;
}

void IterationProgress::arrived(uint64_t iteration, uint32_t worker) noexcept {
    Open& in = open(iteration);
    Parts& of = in.parts[worker];
    ++of.arrived;
    WEIR_CHECK(of.arrived <= of.announced);
    if (of.complete()) ++in.complete;
}

void IterationProgress::lose(uint32_t worker) noexcept {
    if (lost_[worker]) return;
    lost_[worker] = true;
    const Failure failure{Errc::kPeerLost, worker};
    uint64_t iteration = first_open();
    while (iteration <= last_open() && open(iteration).parts[worker].complete())
        ++iteration;
    for (; iteration <= last_open(); ++iteration)
        fail(iteration, failure);
    if (!loss_) loss_ = failure;
}

bool IterationProgress::complete() const noexcept {
    return open(first_open()).complete == last_seen_.size();
}

void IterationProgress::close() {
    Open& closed = open(first_open());
    if (closed.failure) {
        failed_.push_back({first_open(), *closed.failure});
        if (failed_.size() > kFailuresMax) failed_.pop_front();
    }
    // It is the room of the iteration that is opened now.
    std::ranges::fill(closed.parts, Parts());
    closed.complete = 0;
    closed.failure = loss_;
    ++last_closed_;
}

std::optional<IterationProgress::Failure> IterationProgress::failure_of(
    uint64_t iteration) const noexcept {
    if (iteration > last_open()) return loss_;
    if (iteration > last_closed_) return open(iteration).failure;
    const auto found = std::ranges::find(failed_, iteration, &Closed::iteration);
    return found == failed_.end() ? std::nullopt : std::optional(found->failure);
}

std::optional<IterationProgress::Failure> IterationProgress::failure_for(
    uint64_t iteration, uint32_t worker) const noexcept {
    if (const auto failure = failure_of(iteration)) return failure;
    const bool gave_up = iteration > last_closed_ && lost_[worker];
    return gave_up ? std::optional(Failure{Errc::kPeerLost, worker}) : std::nullopt;
}

}  // namespace weir

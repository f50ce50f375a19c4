// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// IterationProgress: which iterations of a table are open, which workers' parts of them have
/// arrived, and which iterations have failed. The update rule runs once all parts have arrived; it
/// does not run if a part failed.

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "lib/base/result.h"

namespace weir {

/// Iterations count from 1. A window of them is open at a time, and they are closed in order.
/// Every worker pushes one or more parts of each, and each part says how many there are.
///
/// Thread: the shard's
class IterationProgress {
public:
    /// `window`: how many are open; 1 or more.
    explicit IterationProgress(uint32_t worker_count, uint32_t window = 1);

    /// Why an iteration ends without running its rule, and through which worker.
    struct Failure {
        Errc status = Errc::kOk;
        uint32_t worker = 0;  ///< its part failed, or it was lost before its parts arrived
    };

    enum class Verdict {
        kNow,     ///< a part of an open iteration
        kLater,   ///< a part of a later iteration: keep it until that is open
        kPast,    ///< a part of a closed iteration
        kSkips,   ///< this worker has not yet sent a part of the iteration before it
        kRefuse,  ///< more parts than announced, or their number changed: a mistake of the worker
    };
    /// What to do with a part of `iteration`, of which `worker` announces `parts`. With kNow and
    /// kLater, `iteration` now counts as seen (see last_seen()).
    [[nodiscard]] Verdict judge(uint64_t iteration, uint32_t worker, uint32_t parts) noexcept;

    // Of an open iteration:

    /// Counts a part as admitted; arrived() follows once it has had its effect. Only after kNow.
    void admit(uint64_t iteration, uint32_t worker, uint32_t parts) noexcept;
    /// Uncounts an admitted part, which the worker will send again.
    void withdraw(uint64_t iteration, uint32_t worker) noexcept;
    /// A part failed: the rule will not run. The first failure is kept.
    void fail(uint64_t iteration, Failure failure) noexcept;
    /// An admitted part has had its effect, or has failed.
    void arrived(uint64_t iteration, uint32_t worker) noexcept;

    /// The worker will send nothing more: the first open iteration that lacks a part of it has
    /// failed, and all later ones have, too, because they could only be closed after it.
    void lose(uint32_t worker) noexcept;

    /// Whether all parts of the first open iteration have arrived: run the rule unless the
    /// iteration has failed, then close().
    [[nodiscard]] bool complete() const noexcept;
    /// Ends the first open iteration and opens one more.
    void close();

    /// How `iteration` failed, or will because a worker is lost. Nothing if neither is so, or if
    /// it failed too long ago to be remembered.
    [[nodiscard]] std::optional<Failure> failure_of(uint64_t iteration) const noexcept;

    /// The same, as an answer to `worker`: if that one itself is lost, every iteration that is
    /// not closed has failed for it, so that it does not wait.
    [[nodiscard]] std::optional<Failure> failure_for(uint64_t iteration,
                                                     uint32_t worker) const noexcept;

    [[nodiscard]] uint64_t first_open() const noexcept { return last_closed_ + 1; }

    [[nodiscard]] uint64_t last_open() const noexcept { return last_closed_ + window_.size(); }

    /// The last iteration that is closed.
    [[nodiscard]] uint64_t last_closed() const noexcept { return last_closed_; }

    /// The last iteration of which this worker has sent a part.
    [[nodiscard]] uint64_t last_seen(uint32_t worker) const noexcept { return last_seen_[worker]; }

    /// Failures of closed iterations that are remembered, for parts and pulls that name them.
    static constexpr size_t kFailuresMax = 64;

private:
    /// One worker's parts of one iteration.
    struct Parts {
        uint32_t announced = 0;  ///< 0: no part admitted yet
        uint32_t admitted = 0;
        uint32_t arrived = 0;

        [[nodiscard]] bool complete() const noexcept {
            return announced > 0 && arrived == announced;
        }
    };

    struct Open {
        std::vector<Parts> parts;  ///< by worker
        uint32_t complete = 0;     ///< number of workers whose parts are complete()
        std::optional<Failure> failure;
    };

    struct Closed {
        uint64_t iteration = 0;
        Failure failure;
    };

    [[nodiscard]] Open& open(uint64_t iteration) noexcept {
        return window_[iteration % window_.size()];
    }

    [[nodiscard]] const Open& open(uint64_t iteration) const noexcept {
        return window_[iteration % window_.size()];
    }

    std::vector<Open> window_;         ///< iteration i at i % size
    std::vector<uint64_t> last_seen_;  ///< by worker
    std::vector<bool> lost_;           ///< by worker
    std::optional<Failure> loss_;      ///< of every iteration that is not open yet: a lost worker
    uint64_t last_closed_ = 0;
    std::deque<Closed> failed_;  ///< closed iterations, at most kFailuresMax
};

}  // namespace weir

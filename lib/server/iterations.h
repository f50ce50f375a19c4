// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Iterations: which iteration of a table is open, which workers' parts of it have arrived, and
/// which iterations have failed. The update rule runs once all parts have arrived; it does not
/// run if a part failed.

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "lib/base/result.h"

namespace weir {

/// Iterations count from 1 and are open one after another. Every worker pushes one or more parts
/// of each, and each part says how many there are.
///
/// Thread: the shard's
class Iterations {
public:
    explicit Iterations(uint32_t worker_count) : workers_(worker_count) {}

    /// Why an iteration ends without running its rule, and through which worker.
    struct Failure {
        Errc status = Errc::kOk;
        uint32_t worker = 0;  ///< its part failed, or it was lost before its parts arrived
    };

    enum class Verdict {
        kNow,     ///< a part of the open iteration
        kLater,   ///< a part of a later iteration: keep it until that is open
        kPast,    ///< a part of a closed iteration
        kSkips,   ///< this worker has not yet sent a part of the iteration before it
        kRefuse,  ///< more parts than announced, or their number changed: a mistake of the worker
    };
    /// What to do with a part of `iteration`, of which `worker` announces `parts`. With kNow and
    /// kLater, `iteration` now counts as seen (see last_seen()).
    [[nodiscard]] Verdict judge(uint64_t iteration, uint32_t worker, uint32_t parts) noexcept;

    /// Counts a part as admitted; arrived() follows once it has had its effect. Only after kNow.
    void admit(uint32_t worker, uint32_t parts) noexcept;

    /// Uncounts an admitted part, which the worker will send again.
    void withdraw(uint32_t worker) noexcept { --workers_[worker].admitted; }

    /// A part of the open iteration failed: the rule will not run. The first failure is kept.
    void fail(Failure failure) noexcept;

    /// The worker will send nothing more: every iteration that lacks a part of it has failed.
    void lose(uint32_t worker) noexcept;

    /// An admitted part has had its effect, or has failed. True if it was the last part of the
    /// iteration: run the rule unless the iteration has failed, then close().
    [[nodiscard]] bool arrived(uint32_t worker) noexcept;
    /// Ends the open iteration and opens the next one.
    void close();

    /// How `iteration` failed, or will because a worker is lost. Nothing if neither is so, or if
    /// it failed too long ago to be remembered.
    [[nodiscard]] std::optional<Failure> failure_of(uint64_t iteration) const noexcept;

    /// The same, as an answer to `worker`: if that one itself is lost, every iteration that is
    /// not closed has failed for it, so that it does not wait.
    [[nodiscard]] std::optional<Failure> failure_for(uint64_t iteration,
                                                     uint32_t worker) const noexcept;

    [[nodiscard]] uint64_t open() const noexcept { return last_closed_ + 1; }

    /// The last iteration that is closed.
    [[nodiscard]] uint64_t last_closed() const noexcept { return last_closed_; }

    /// The last iteration of which this worker has sent a part.
    [[nodiscard]] uint64_t last_seen(uint32_t worker) const noexcept {
        return workers_[worker].last_seen;
    }

    /// Failures of closed iterations that are remembered, for parts and pulls that name them.
    static constexpr size_t kFailuresMax = 64;

private:
    struct Worker {
        uint32_t announced = 0;  ///< parts of the open iteration; 0: no part admitted yet
        uint32_t admitted = 0;
        uint32_t arrived = 0;
        bool lost = false;
        uint64_t last_seen = 0;

        /// All of its parts of the open iteration have arrived.
        [[nodiscard]] bool complete() const noexcept {
            return announced > 0 && arrived == announced;
        }
    };

    struct Closed {
        uint64_t iteration = 0;
        Failure failure;
    };

    std::vector<Worker> workers_;
    uint32_t complete_ = 0;  ///< number of workers that are complete()
    uint64_t last_closed_ = 0;
    uint32_t lost_ = 0;               ///< number of lost workers
    std::optional<Failure> failure_;  ///< of the open iteration
    std::deque<Closed> failed_;       ///< closed iterations, at most kFailuresMax
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Iterations: which iteration of a table is open, whose parts of it are in, and which iterations
/// have failed. The rule runs once all parts are in; it does not run if one of them failed.

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "lib/base/result.h"

namespace weir {

/// Iterations count from 1, one after another; every worker takes part in each, in as many parts as
/// it says. Thread: the shard's.
class Iterations {
public:
    explicit Iterations(uint32_t worker_count) : workers_(worker_count) {}

    /// Why an iteration ends without its rule, and through whom.
    struct Failure {
        Errc status = Errc::kOk;
        uint32_t worker = 0;  ///< whose part failed, or who was lost before its part was in
    };

    enum class Verdict {
        kNow,     ///< belongs to the open iteration
        kLater,   ///< belongs to one after it: keep it until then
        kPast,    ///< belongs to one that is closed
        kSkips,   ///< this worker has sent no part yet of an iteration before it
        kRefuse,  ///< more parts than announced, or other announcements: a mistake of the worker
    };
    /// Remembers that this worker has come to `iteration`, unless the part is refused.
    [[nodiscard]] Verdict judge(uint64_t iteration, uint32_t worker, uint32_t parts) noexcept;

    /// Counts a part in; its effect may still be on its way. Only after kNow.
    void admit(uint32_t worker, uint32_t parts) noexcept;

    /// An admitted part comes again later: it does not count yet.
    void withdraw(uint32_t worker) noexcept { --workers_[worker].admitted; }

    /// A part of the open iteration failed: its rule will not run. The first failure stays.
    void fail(Failure failure) noexcept;

    /// The worker sends nothing more: iterations of which a part of it is missing have failed.
    void lose(uint32_t worker) noexcept;

    /// The part's effect is in the aggregate, or it has failed. True if it was the last one of all:
    /// run the rule if the iteration has not failed, then close().
    [[nodiscard]] bool arrived(uint32_t worker) noexcept;
    /// The open iteration is over; the next one is open.
    void close();

    /// How `iteration` failed; nothing if it has not, or not yet, or too long ago to be known.
    [[nodiscard]] std::optional<Failure> failure_of(uint64_t iteration) const noexcept;

    /// The same for one who waits for it: a worker that is lost itself waits for nobody.
    [[nodiscard]] std::optional<Failure> failure_for(uint64_t iteration,
                                                     uint32_t worker) const noexcept;

    [[nodiscard]] uint64_t open() const noexcept { return last_closed_ + 1; }

    /// The last iteration that is over.
    [[nodiscard]] uint64_t last_closed() const noexcept { return last_closed_; }

    /// The last iteration of which this worker has sent a part.
    [[nodiscard]] uint64_t last_seen(uint32_t worker) const noexcept {
        return workers_[worker].last_seen;
    }

    /// So many failures of closed iterations are remembered, for pulls that name one of them.
    static constexpr size_t kFailuresMax = 64;

private:
    struct Worker {
        uint32_t announced = 0;  ///< parts of the open iteration; 0: none has come yet
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
    uint32_t complete_ = 0;  ///< workers of which all parts have arrived
    uint64_t last_closed_ = 0;
    uint32_t lost_ = 0;               ///< workers
    std::optional<Failure> failure_;  ///< of the open iteration
    std::deque<Closed> failed_;       ///< the last ones of those that are closed
};

}  // namespace weir

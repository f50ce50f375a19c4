// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Iterations: which iteration of a table is being gathered, and whose pushes of it are in. The
/// rule runs once when all of them are.

#include <cstdint>
#include <vector>

namespace weir {

/// Iterations count from 1, one after another; every worker takes part in each, in as many parts as
/// it says. Thread: the shard's.
class Iterations {
public:
    explicit Iterations(uint32_t worker_count) : in_(worker_count) {}

    enum class Verdict {
        kNow,     ///< belongs to the iteration that is being gathered
        kLater,   ///< belongs to one after it: keep it until then
        kRefuse,  ///< past, more parts than announced, or other announcements: a mistake of the
                  ///< worker
    };
    [[nodiscard]] Verdict judge(uint64_t iteration, uint32_t worker, uint32_t parts) const noexcept;

    /// Counts a part in; its effect may still be on its way. Only after kNow.
    void admit(uint32_t worker, uint32_t parts) noexcept;

    /// An admitted part comes again later: it does not count yet.
    void withdraw(uint32_t worker) noexcept { --in_[worker].admitted; }

    /// The part's effect is in the aggregate. True if it was the last one of all: run the rule.
    [[nodiscard]] bool arrived(uint32_t worker) noexcept;
    /// The rule has run: the next iteration begins.
    void applied() noexcept;

    /// All of this worker's parts of the iteration that is being gathered have arrived.
    [[nodiscard]] bool complete(uint32_t worker) const noexcept {
        return in_[worker].announced > 0 && in_[worker].arrived == in_[worker].announced;
    }

    /// The last iteration whose rule has run.
    [[nodiscard]] uint64_t last_applied() const noexcept { return last_applied_; }

private:
    struct Worker {
        uint32_t announced = 0;  ///< parts of this iteration; 0: none has come yet
        uint32_t admitted = 0;
        uint32_t arrived = 0;
    };

    std::vector<Worker> in_;
    uint32_t complete_ = 0;  ///< workers of which all parts have arrived
    uint64_t last_applied_ = 0;
};

}  // namespace weir

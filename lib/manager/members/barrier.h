// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Barrier: the workers that are in the job, and those of them that wait for all others.

#include <cstdint>
#include <map>
#include <optional>

#include "lib/base/result.h"
#include "lib/manager/asker.h"
#include "lib/wire/messages.h"

namespace weir {

/// It looks at each worker and does not count arrivals: a worker that came to the barrier and then
/// left the job must not stand in for one that has yet to come.
///
/// Thread: the manager's
class Barrier {
public:
    explicit Barrier(Outbox& outbox) noexcept : outbox_(outbox) {}

    /// The worker is in the job: the others wait for it.
    void add(uint32_t worker) { workers_.try_emplace(worker); }

    /// The worker is in the job no more. If it waits, its call ends.
    void remove(uint32_t worker);

    /// A worker comes to the barrier. One that is not in the job, or waits already, is refused.
    void arrive(const Asker& asker);

    /// The worker's deadline for the barrier is over. It does not count as waiting until it comes
    /// again. Answers that, also if it does not wait.
    void withdraw(const Asker& asker, uint64_t request);

    /// Who has not come to it, for those that wait there.
    [[nodiscard]] StatsMessage late() const;

    /// Opens the barrier if all workers wait at it. If it is `broken`, fails it.
    void settle(const Status& broken);

private:
    void cancel(std::optional<Asker>& waiting);

    Outbox& outbox_;
    std::map<uint32_t, std::optional<Asker>> workers_;  // those that wait, with their requests
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Members: who takes part in iterations: the workers of the view, each from its first iteration
/// on; until one is lost, which ends what waits for a part of it.

#include <cstdint>

#include "lib/server/iterations/iteration_parts.h"

namespace weir {

class Members : ShardRoom {
public:
    Members(const ShardRoom& room, WaitingRequests& waiting, IterationParts& parts)
        : ShardRoom(room), waiting_(waiting), parts_(parts) {}

    /// The shard has a new view. Nothing of workers that are gone is executed.
    void apply_view();
    /// After that: what was held goes on, unless the question for it was for this view, or for a
    /// later one. A member may be gone, so iterations may be complete now.
    void release_iterations();
    /// A table has its members.
    void set(ShardTable& table) const;

    /// The manager asks from which iteration on a new worker can take part.
    void reply_first_iterations(std::span<const std::byte> body);
    /// The manager says that workers have come or gone, and that all take the work anew: nobody
    /// pushes further parts to the tables below this number.
    void end_iterations(uint64_t tables_end);
    /// The manager says that a worker is lost, and that the job does not go on without it.
    void lose(uint64_t worker);
    /// A worker says that it gives up: it will push no further part of an iteration.
    void gave_up(const Session& session, uint64_t request);
    /// The worker's connection is closed (it died, or has left), or it gave up, or the manager lost
    /// it before it came here: replies to the requests that wait for a part of it.
    void expect_no_more_parts_of(uint32_t worker);

private:
    WaitingRequests& waiting_;
    IterationParts& parts_;
    uint64_t held_in_ = 0;       ///< the epoch of the question for which iterations are held
    uint64_t ended_tables_ = 0;  ///< those below this number take no parts any more
};

}  // namespace weir

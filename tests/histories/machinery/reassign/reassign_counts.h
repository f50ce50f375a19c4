// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ReassignCounts: what happened in all histories of workers that take their work in rounds, to see that
/// they reach what they are to reach.

#include <cstdint>

namespace weir::test {

struct ReassignCounts {
    uint64_t rounds = 0;          ///< beside the first one of a job
    uint64_t reassigned = 0;      ///< calls that ended so
    uint64_t workers_died = 0;    ///< those that hang among them
    uint64_t workers_hung = 0;    ///< until their leases had ended
    uint64_t workers_joined = 0;  ///< or asked to
    uint64_t workers_left = 0;    ///< after they had given their work back
    uint64_t servers_killed = 0;
    uint64_t died_together = 0;   ///< times a worker and a server died at one instant
    uint64_t died_in_turn = 0;    ///< times a server died soon after a worker, or before
    uint64_t with_managers = 0;   ///< times the manager that led died with a worker and a server
    uint64_t servers_joined = 0;  ///< or asked to
    uint64_t servers_left = 0;    ///< or were asked to
    uint64_t checkpoints = 0;     ///< that were asked for
    uint64_t written = 0;
    uint64_t given_up = 0;      ///< because of servers or managers
    uint64_t written_amid = 0;  ///< though a worker died meanwhile
    uint64_t written_again =
        0;  ///< after deaths of servers that were known, while copies were made
    uint64_t written_in_calm = 0;  ///< those that had to be written, as servers did nothing
    uint64_t pulls_of_iterations = 0;
};

}  // namespace weir::test

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Roles: which rank is what. The first `servers` ranks serve, the others work; with colocate every
/// rank works; a rank alone is everything.

#include <cstdint>
#include <vector>

#include "lib/job/job.h"
#include "lib/ring/assignment.h"

namespace weir {

struct Roles {
    JobShape shape;
    RingShape ring;
    uint32_t first_server = 0;
    uint32_t local_servers = 1;
    std::vector<uint32_t> server_ranks;  ///< by server
    std::vector<uint32_t> worker_ranks;  ///< by worker
};

/// Errors: kInvalidArgument if there are not enough ranks, or a count is zero or absurd
[[nodiscard]] Result<Roles> plan_roles(const JobOptions& options, uint32_t rank, uint32_t size);

}  // namespace weir

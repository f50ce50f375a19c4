// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Roles: which ranks are servers and which are workers. The first `servers` ranks are servers,
/// the others are workers. With `colocate` every rank is a worker. A single rank is both.

#include <cstdint>
#include <vector>

#include "lib/job/job.h"

namespace weir {

struct Roles {
    JobShape shape;
    uint32_t first_server = 0;
    uint32_t local_servers = 1;
    std::vector<uint32_t> server_ranks;  ///< the rank of each server
    std::vector<uint32_t> worker_ranks;  ///< the rank of each worker
};

/// Errors: kInvalidArgument if there are not enough ranks, a count is 0 or above 4096, or the ring has no
///         room for all shards
[[nodiscard]] Result<Roles> plan_roles(const JobOptions& options, uint32_t rank, uint32_t size);

/// Refuses more threads than this process's CPUs can serve.
/// Errors: kInvalidArgument
[[nodiscard]] Status check_thread_count(const JobOptions& options, const Roles& roles);

}  // namespace weir

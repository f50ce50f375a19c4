// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// TrainingTraffic: what a training has sent and copied.

#include <cstdint>

#include "lib/base/result.h"
#include "lib/wire/filter_traffic.h"
#include "lib/worker/client.h"

namespace weir {

/// What was sent until it was counted.
struct TrainingTraffic {
    uint64_t server_bytes = 0;  ///< by servers: in messages, and written to workers' memory
    uint64_t worker_bytes = 0;  ///< by workers: in messages, and read from their memory by servers
    FilterTraffic filters;      ///< of all workers
    uint64_t bytes_copied = 0;  ///< by all workers and servers
    uint64_t registered_bytes = 0;  ///< for all workers and servers
};

/// All workers call it. Errors: those of Client::stats() and Client::allreduce()
[[nodiscard]] Result<TrainingTraffic> count_traffic(Client& client);

}  // namespace weir

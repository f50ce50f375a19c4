// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir bench failover`: pushes while servers are killed.

#include "bench/jobs/work.h"
#include "lib/base/config.h"
#include "lib/job/job.h"
#include "lib/worker/client.h"

namespace weir::bench {

/// All workers call it. The first one makes servers join, kills them, and reports.
/// Errors: a push that failed; kProtocol if a push was lost or counted twice, or if copies differ
[[nodiscard]] Status bench_failover(Client& client, const BenchFlags& flags, const JobShape& shape,
                                    const Config& config);

}  // namespace weir::bench

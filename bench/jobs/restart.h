// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir bench restart`: pushes, and writes checkpoints all the time, until it is killed. Started again, it
/// goes on from the newest checkpoint, if that has exactly the pushes that it has to have.

#include "bench/jobs/work.h"
#include "lib/job/job.h"
#include "lib/worker/client.h"

namespace weir::bench {

/// All workers of the job call it. The first one writes JSON lines to stdout: {"resumed": NUMBER, ...} with
/// how many pushes each table has; {"seen": NUMBER, ...} when a checkpoint is complete, with how many were
/// acknowledged before.
/// Errors:  kProtocol: the values are not the sums of what was pushed
[[nodiscard]] Status bench_restart(Client& client, const BenchFlags& flags);

}  // namespace weir::bench

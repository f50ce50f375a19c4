// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir bench delay`: iterations of several workers, one of which is slowed at a time, by the
/// bound on their delay.

#include "bench/jobs/work.h"
#include "lib/job/job.h"
#include "lib/worker/client.h"

namespace weir::bench {

/// All workers call it. The first one reports.
[[nodiscard]] Status bench_delay(Client& client, const BenchFlags& flags, const JobShape& shape);

}  // namespace weir::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir bench traffic`: what the training of `weir lr` sends, with one filter more each time.

#include "bench/jobs/work.h"
#include "lib/job/job.h"
#include "lib/worker/client.h"

namespace weir::bench {

/// All workers call it. The first one reports.
[[nodiscard]] Status bench_traffic(Client& client, const BenchFlags& flags, const JobShape& shape);

}  // namespace weir::bench

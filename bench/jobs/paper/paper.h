// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir bench paper`: the figures of the Parameter Server's papers, as this machine draws them.

#include "bench/jobs/work.h"
#include "lib/job/job.h"
#include "lib/worker/client.h"

namespace weir::bench {

/// All workers call it. The first one reports.
[[nodiscard]] Status bench_paper(Client& client, const BenchFlags& flags, const JobShape& shape);

}  // namespace weir::bench

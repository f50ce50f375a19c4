// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir bench factorization`: matrix factorisation by stochastic gradient descent, of which each sample
/// pulls and pushes a row of two tables.

#include "bench/jobs/work.h"
#include "lib/job/job.h"
#include "lib/worker/client.h"

namespace weir::bench {

/// All workers call it. The first one reports.
[[nodiscard]] Status bench_factorization(Client& client, const BenchFlags& flags,
                                         const JobShape& shape);

}  // namespace weir::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir bench filters`: pushes through filters, beside the same pushes without any.

#include "bench/jobs/work.h"
#include "lib/job/job.h"
#include "lib/worker/client.h"

namespace weir::bench {

/// Of the first worker, in a job that has no other.
/// Errors: kInvalidArgument if it has others
[[nodiscard]] Status bench_filters(Client& client, const BenchFlags& flags, const JobShape& shape);

}  // namespace weir::bench

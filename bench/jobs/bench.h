// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir bench JOB`: measures the speed between real processes, and in the same run the best that this
/// machine can do, the limit.

#include "bench/jobs/work.h"
#include "lib/base/config.h"

namespace weir::bench {

/// Runs the bench. With --local it also runs in the child processes that it starts.
/// Errors: kInvalidArgument for flags that do not fit; those of Job::start() and of the bench
[[nodiscard]] Status run_bench(BenchFlags& flags, Config& config);

}  // namespace weir::bench

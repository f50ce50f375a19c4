// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir bench push|pull|latency|insert|lookup`: speed between real processes, against what this machine
/// can do at best, measured in the same run.

#include "lib/base/config.h"
#include "tools/weir/bench_work.h"

namespace weir::tools {

/// The whole command; returns the exit code. With --local it also runs in the children that it
/// starts.
int run_bench(BenchFlags& flags, Config& config);

}  // namespace weir::tools

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir bench push|pull|latency|insert`: speed between real processes, against what this machine
/// can do at best, measured in the same run.

#include "lib/base/config.h"
#include "tools/weir/bench_work.h"

namespace weir::tools {

/// The whole command, in the process that --local starts it from and in its children; gives the
/// exit code.
int run_bench(BenchFlags& flags, Config& config);

}  // namespace weir::tools

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir bench push|pull|latency|insert|lookup|delay|elastic`: measures the speed between real
/// processes, and in the same run the best that this machine can do, the limit.

#include "lib/base/config.h"
#include "tools/weir/bench_work.h"

namespace weir::tools {

/// Runs the command and returns the exit code. With --local it also runs in the child processes
/// that it starts.
int run_bench(BenchFlags& flags, Config& config);

}  // namespace weir::tools

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir bench push|pull|latency|insert`: speed between real processes, against what this machine
/// can do at best, measured in the same run.

#include "tools/weir/command.h"

namespace weir::tools {

void add_bench(CLI::App& app, Program& program);

}  // namespace weir::tools

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir lr`: trains sparse logistic regression, in one process or as one rank of a job.

#include "tools/weir/command.h"

namespace weir::tools {

void add_lr(CLI::App& app, Program& program);

}  // namespace weir::tools

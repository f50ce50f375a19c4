// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The WEIR_ variables that say what a job is to be.

#include <string>
#include <vector>

#include "lib/base/config.h"
#include "lib/base/result.h"
#include "lib/job/job.h"

namespace weir {

/// `options`, with what flags and variables say in place of what the program does.
/// Errors: kInvalidArgument, naming the variable or flag
[[nodiscard]] Result<JobOptions> with_variables(JobOptions options, const Config& config);

/// JobOptions::plugins, likewise.
[[nodiscard]] std::vector<std::string> plugins_with_variable(std::vector<std::string> plugins,
                                                             const Config& config);

}  // namespace weir

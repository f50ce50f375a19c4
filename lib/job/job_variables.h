// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The WEIR_ variables that say what a job is to be.

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/config.h"
#include "lib/base/result.h"
#include "lib/job/job.h"

namespace weir {

/// `options`, with what flags and variables say in place of what the program does.
/// Errors: kInvalidArgument, naming the variable or flag
[[nodiscard]] Result<JobOptions> with_variables(JobOptions options, const Config& config);

/// `text`, in which options stand as `servers`, with the variable in place of each that has its value from
/// one: "`servers` 2" becomes "WEIR_SERVERS=2".
[[nodiscard]] std::string in_variables(std::string_view text, const Config& config);

/// JobOptions::plugins, likewise.
[[nodiscard]] std::vector<std::string> plugins_with_variable(std::vector<std::string> plugins,
                                                             const Config& config);

}  // namespace weir

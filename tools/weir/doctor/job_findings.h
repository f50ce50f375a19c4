// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What `weir doctor` says of a job with the variables that are set: what Job::start() would.

#include <vector>

#include "lib/base/config.h"
#include "tools/weir/doctor/finding.h"

namespace weir::tools {

/// has_place: WEIR_BIND, WEIR_PORT and WEIR_SECRET_FILE are right, so that devices can be opened.
[[nodiscard]] std::vector<Finding> judge_job(const Config& config, bool has_place);

}  // namespace weir::tools

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir doctor` at two hosts: whether they reach each other, and how fast.

#include <string>
#include <vector>

#include "lib/base/config.h"
#include "lib/base/result.h"
#include "tools/weir/doctor/finding.h"

namespace weir::tools {

/// What a transfer over each transport to the `weir doctor --listen` at `where` shows.
/// Errors: kInvalidArgument, kNotFound, kUnavailable: `where` is wrong, or nobody listens there
[[nodiscard]] Result<std::vector<Finding>> examine_pair(const std::string& where,
                                                        const Config& config);

/// Waits for one other `weir doctor`, and helps it until it has ended.
/// Errors: kInvalidArgument, kAlreadyExists: cannot listen there; kDeadline: nobody came
[[nodiscard]] Status help_other(const std::string& where, uint32_t wait_s, const Config& config);

}  // namespace weir::tools

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a `weir lr` says of its training to those that want to join it, and how they take it over:
/// nobody repeats the flags of the job.

#include <string>

#include "lib/base/result.h"
#include "lib/job/job.h"
#include "lib/wire/job_status.h"
#include "tools/weir/lr/lr.h"

namespace weir::tools {

/// For Client::take_work(). The names of the test files, and those of the training files, are left out
/// if they are too long. Empty if it is too long without them.
[[nodiscard]] std::string describe_training(const LrFlags& flags, const JobShape& shape);

/// Sets all flags that the job decides on, and LrFlags::began. Files that are named already (--train,
/// --test) are kept.
///
/// Errors: kUnavailable if the job takes no workers, or is not a `weir lr`; kInvalidArgument if the
///         files that are named cannot be the job's, or have to be named
[[nodiscard]] Status take_settings(const JobStatus::Work& work, LrFlags& flags);

}  // namespace weir::tools

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What came out of `weir lr`: for people, and into the files that were asked for.

#include "lib/apps/lr_run.h"
#include "lib/job/job.h"
#include "tools/weir/lr.h"

namespace weir::tools {

/// A proof that leaves a tenth of the objective open says nothing to a person.
inline constexpr double kTellingGap = 0.1;

/// A share of the objective, for people: "2.8 %".
[[nodiscard]] std::string percent(double share);

/// Prints the summary, on stderr where one of the files is standard output, and writes the files.
/// Errors: kIo
[[nodiscard]] Status report(const LrFlags& flags, const apps::LrRun& run, const JobShape& shape);

}  // namespace weir::tools

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The progress and the results of `weir lr --stream`: lines and a summary for people, and the output files.

#include <string>

#include "lib/apps/online/online_run.h"
#include "lib/job/job.h"
#include "tools/weir/lr/lr.h"

namespace weir::tools {

/// One line.
[[nodiscard]] std::string progress_text(apps::Loss loss, const apps::OnlineProgress& progress);

/// write_results() and rewrite_events() of a stream.
[[nodiscard]] Status report_online(const LrFlags& flags, const apps::OnlineRun& run,
                                   const JobShape& shape);
[[nodiscard]] Status report_online_events(const LrFlags& flags, const apps::OnlineRun& run,
                                          const JobShape& shape);

}  // namespace weir::tools

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir status --watch`: the state of a job again and again, with what it does in a second.

#include <cstdint>
#include <string>

#include "lib/base/config.h"
#include "lib/wire/job_status.h"
#include "tools/weir/jobs/running_job.h"

namespace weir::tools {

/// One look: servers and shards with their rates, and what status_text() says of the rest.
///
/// before: an earlier status, `seconds` before; 0: there is none, and no rates
[[nodiscard]] std::string watch_text(const JobStatus& before, const JobStatus& now, double seconds);

/// As much of `text` as a screen of this size shows, for a terminal: each line replaces what stood there.
[[nodiscard]] std::string on_screen(const std::string& text, uint32_t rows, uint32_t columns);

/// Runs until the job is over or a signal comes. Returns the exit code.
int watch_status(const StatusFlags& flags, const Config& config);

}  // namespace weir::tools

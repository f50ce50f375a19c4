// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The state of a running job as text and as JSON.

#include <string>

#include "lib/wire/job_status.h"

namespace weir::tools {

[[nodiscard]] std::string status_text(const JobStatus& status);
/// status_text() below its table of servers.
[[nodiscard]] std::string rest_text(const JobStatus& status);
[[nodiscard]] std::string status_json(const JobStatus& status);

}  // namespace weir::tools

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How far a server is with the segments that it learns, as text and as JSON.

#include <string>

#include <nlohmann/json.hpp>

#include "lib/wire/job_status.h"

namespace weir::tools {

/// A line; empty if it learns none.
[[nodiscard]] std::string learning_text(const JobStatus::Server& server);

/// null if it learns none.
[[nodiscard]] nlohmann::ordered_json learning_json(const JobStatus::Server& server);

}  // namespace weir::tools

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// bench_json: what the JSON of every bench begins with.

#include <string>

#include <nlohmann/json.hpp>

#include "lib/job/job.h"

namespace weir::bench {

/// The bench's name, the transport, the launcher and the machine.
[[nodiscard]] nlohmann::json bench_json(const std::string& bench, const JobShape& shape);

}  // namespace weir::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What `weir lr` says of the bytes that it has sent, and of what filters have made of them.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "lib/apps/lr/lr_run.h"

namespace weir::tools {

[[nodiscard]] nlohmann::json traffic_json(const TrainingTraffic& traffic);

/// "1.2 MB sent by workers, 3.4 MB by servers; pushes: zeros 40 %, compress 12 % less"
[[nodiscard]] std::string traffic_text(const TrainingTraffic& traffic);

}  // namespace weir::tools

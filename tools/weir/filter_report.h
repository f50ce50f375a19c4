// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What filters have made of the bytes of pushes and pulls, for people and their programs.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "lib/wire/filter_traffic.h"

namespace weir::tools {

/// Under `pushed` and `pulled`, the bytes before and after each filter, and the numbers of rows.
[[nodiscard]] nlohmann::json filters_json(const FilterTraffic& filters);

/// Before and after.
[[nodiscard]] nlohmann::json filter_bytes_json(const FilterBytes& bytes);

/// "; pushes: zeros 40 %, compress 12 % less; pulls: zeros 30 % less": of the filters that took something
/// away; empty: none did.
[[nodiscard]] std::string filters_text(const FilterTraffic& filters);

}  // namespace weir::tools

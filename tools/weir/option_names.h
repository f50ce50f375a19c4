// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the library says of its options, for people who know them as flags of this program, or have given
/// them by variables.

#include <string>
#include <string_view>

#include "lib/base/config.h"

namespace weir::tools {

/// From now on in_flags() names the variables that have given an option. `config` must live as long.
void name_variables_of(const Config* config) noexcept;

/// The library names an option as `servers`: here that is --servers, or the variable that gave it.
/// Thread: any
[[nodiscard]] std::string in_flags(std::string_view text);

}  // namespace weir::tools

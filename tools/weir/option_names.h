// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the library says of its options, for people who know them as flags of this program.

#include <string>
#include <string_view>

namespace weir::tools {

/// The library names an option as `servers`: here that is --servers.
[[nodiscard]] std::string in_flags(std::string_view text);
/// Here that is WEIR_SERVERS.
[[nodiscard]] std::string in_variables(std::string_view text);

}  // namespace weir::tools

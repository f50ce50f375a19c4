// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// counted: a number of things in a text for people.

#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/core.h>

namespace weir {

/// "1 server", "3 servers", "2 passes". `thing`: one of them, with a regular plural
[[nodiscard]] inline std::string counted(uint64_t count, std::string_view thing) {
    const std::string_view ending = count == 1 ? "" : thing.ends_with("s") ? "es" : "s";
    return fmt::format("{} {}{}", count, thing, ending);
}

}  // namespace weir

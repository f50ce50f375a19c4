// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How the programs write JSON.

#include <string>

namespace weir {

/// Indented, with a line's end. Names of files need not be UTF-8: what is not is replaced.
template <class Json>
[[nodiscard]] std::string json_text(const Json& json) {
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Man pages and completion for bash, made of what --help shows.

#include <string>
#include <vector>

#include "lib/base/result.h"

namespace CLI {
class App;
}

namespace weir::tools {

/// Writes weir.1, weir-COMMAND.1 for each command, and the completion weir.bash, to a folder.
/// Errors: kIo
[[nodiscard]] Status write_manual(const CLI::App& app, const std::string& folder);

}  // namespace weir::tools

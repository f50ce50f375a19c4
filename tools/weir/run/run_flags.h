// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The flags of `weir run`, for command_line.cc.

#include <string>
#include <vector>

#include "tools/weir/command_line.h"

namespace CLI {
class App;
}

namespace weir::tools {

/// Adds the command to `app`, and returns it. It sets `chosen` when it is on the command line.
///
/// behind: the words behind --
CLI::App* add_run(CLI::App& app, const std::vector<std::string>& behind, Command& chosen);

}  // namespace weir::tools

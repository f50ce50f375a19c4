// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The flags of `weir lr` and `weir predict`, for command_line.cc.

#include "tools/weir/command_line.h"

namespace CLI {
class App;
}

namespace weir::tools {

/// They add their command to `app`. It sets `chosen` when it is on the command line.
void add_lr(CLI::App& app, Command& chosen);
void add_predict(CLI::App& app, Command& chosen);

}  // namespace weir::tools

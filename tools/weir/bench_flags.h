// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The flags of `weir bench` and its subcommands, for command_line.cc.

#include "tools/weir/command_line.h"

namespace CLI {
class App;
}

namespace weir::tools {

/// Adds the command to `app`. It sets `chosen` when it is on the command line.
void add_bench(CLI::App& app, Command& chosen);

}  // namespace weir::tools

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The flags of `weir checkpoint` and its subcommands, for command_line.cc.

#include <CLI/CLI.hpp>

#include "tools/weir/command_line.h"

namespace weir::tools {

/// Adds the command to `app`. It sets `chosen` when it is on the command line.
void add_checkpoint(CLI::App& app, Command& chosen);

}  // namespace weir::tools

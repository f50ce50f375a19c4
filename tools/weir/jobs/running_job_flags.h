// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The flags of the commands for a running job, `weir server`, `leave`, `status` and so on, for command_line.cc.

#include "tools/weir/command_line.h"

namespace CLI {
class App;
}

namespace weir::tools {

/// They add their command to `app`. It sets `chosen` when it is on the command line.
void add_server(CLI::App& app, Command& chosen);
void add_leave(CLI::App& app, Command& chosen);
void add_status(CLI::App& app, Command& chosen);
void add_get(CLI::App& app, Command& chosen);
void add_stop(CLI::App& app, Command& chosen);
/// `weir checkpoint now`: `app` is `weir checkpoint`.
void add_checkpoint_now(CLI::App& app, Command& chosen);

}  // namespace weir::tools

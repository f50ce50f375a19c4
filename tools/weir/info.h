// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir info`: what this build, this machine and this environment can do, and what to do about
/// what they cannot.

#include "tools/weir/command.h"

namespace weir::tools {

void add_info(CLI::App& app, Program& program);

}  // namespace weir::tools

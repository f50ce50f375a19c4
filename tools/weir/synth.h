// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir synth`: writes a synthetic click log.

#include "tools/weir/command.h"

namespace weir::tools {

void add_synth(CLI::App& app, Program& program);

}  // namespace weir::tools

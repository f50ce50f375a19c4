// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The flags of `weir lr` that choose a solver and a loss, and those that some solvers do not have.

#include "tools/weir/lr/lr.h"

namespace CLI {
class App;
}

namespace weir::tools {

void add_online_flags(CLI::App& command, LrFlags& flags);

/// --classes LIST
void add_classes(CLI::App& command, data::ClassLabels& classes);

/// For CLI11's callback: throws what CLI11 prints if flags were given that the solver does not have, or are missing.
void check_online_flags(const CLI::App& command, const LrFlags& flags);

/// Numbers that were not given and have other values with the solver that was.
void take_defaults(const CLI::App& command, LrFlags& flags);

}  // namespace weir::tools

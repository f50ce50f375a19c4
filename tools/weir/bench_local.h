// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Starts the processes of a bench on this host.

#include <string>
#include <vector>

#include "lib/base/result.h"

namespace weir::tools {

/// Runs this program `count` times with `arguments` and the flags of ranks, and waits for all.
/// Nothing that it started is left behind. Errors: kIo: a process could not start, failed or died
[[nodiscard]] Status run_local_ranks(const std::vector<std::string>& arguments, size_t count);

}  // namespace weir::tools

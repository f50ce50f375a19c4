// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// run_local_ranks: starts the processes of a bench on this host.

#include <string>
#include <vector>

#include "lib/base/result.h"

namespace weir::tools {

/// Runs this program `count` times with `arguments` and the flags of its rank, and waits for all
/// of these processes. After an error it kills those that still run.
/// Errors: kIo: a process could not start, failed or died
[[nodiscard]] Status run_local_ranks(const std::vector<std::string>& arguments, size_t count);

}  // namespace weir::tools

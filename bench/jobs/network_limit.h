// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// limit_network: a slower network, to measure what is worth its time there.

#include <cstdint>

#include "lib/base/result.h"

namespace weir::bench {

/// From now on this thread, and the processes that it starts, have a network of their own: a loopback device that
/// carries so many megabits per second, both directions together. Needs the rights of root, and the commands
/// `ip` and `tc` (iproute2).
///
/// Thread: the only one of the process
/// Errors: kIo
[[nodiscard]] Status limit_network(uint32_t mbit_per_s);

}  // namespace weir::bench

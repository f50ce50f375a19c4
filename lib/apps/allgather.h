// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// allgather: every worker gets the lists of all workers.

#include <cstdint>
#include <span>
#include <vector>

#include "lib/apps/block_exchange.h"

namespace weir::apps {

/// All workers' lists end to end, in the order of the workers. A collective; for lists that are
/// small beside the data.
[[nodiscard]] Result<std::vector<uint64_t>> allgather(BlockExchange& exchange,
                                                      std::span<const uint64_t> mine);

}  // namespace weir::apps

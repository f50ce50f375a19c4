// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// allgather: every worker gets the lists of all workers.

#include <cstdint>
#include <span>
#include <vector>

#include "lib/apps/block_exchange.h"

namespace weir::apps {

/// All workers' lists end to end, in the order of the workers. Every worker sends its own list once,
/// and one that wants the result receives it once. A collective; all lists together fit into the
/// memory of a worker.
///
/// wanted: false gives an empty list, for a worker that only contributes
[[nodiscard]] Result<std::vector<uint64_t>> allgather(BlockExchange& exchange,
                                                      std::span<const uint64_t> mine,
                                                      bool wanted = true);

}  // namespace weir::apps

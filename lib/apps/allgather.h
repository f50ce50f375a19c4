// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// allgather: every worker gets the lists of all workers.

#include <cstdint>
#include <span>
#include <vector>

#include "lib/apps/lr/block_exchange.h"

namespace weir::apps {

/// Returns all workers' lists end to end, in the order of the workers. A collective. Every worker
/// sends its own list once and receives the result once. All lists together must fit into the
/// memory of a worker.
///
/// wanted: false: this worker only contributes; it receives nothing and gets an empty list
/// Errors: the exchange's
[[nodiscard]] Result<std::vector<uint64_t>> allgather(BlockExchange& exchange,
                                                      std::span<const uint64_t> mine,
                                                      bool wanted = true);

}  // namespace weir::apps

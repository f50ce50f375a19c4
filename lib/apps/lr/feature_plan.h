// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FeaturePlan: how the features are divided into blocks, and the blocks into pieces. All workers
/// have the same plan.

#include <cstdint>
#include <span>
#include <vector>

#include "lib/apps/lr/block_exchange.h"
#include "lib/data/examples.h"
#include "lib/data/feature_matrix.h"

namespace weir::apps {

struct FeaturePlan {
    uint64_t example_count = 0;  ///< of all workers together
    uint64_t nonzero_count = 0;  ///< of all workers together
    uint64_t feature_count = 0;  ///< different features; an upper bound if they are very many
    double pass_cost_ns = 0;     ///< estimated time of one pass, added up over all workers
    uint32_t block_count = 1;
    uint32_t frequent_block_count = 0;  ///< the first ones: of features that many examples have
    uint32_t pieces_per_block = 1;
    data::FeatureGroups groups;  ///< group = block * pieces_per_block + piece
};

struct PlanOptions {
    uint32_t block_count = 0;  ///< 0: chosen
    /// This worker's memory asks for so many blocks at least; the greatest of the workers' numbers
    /// counts. Only with blocks_at_once, and where block_count is 0.
    uint32_t block_count_min = 1;
    uint64_t seed = 1;
    /// How many blocks are under way at a time: their round trips take place at once, a block is one piece, and
    /// features that many examples have are in blocks of their own. 0: blocks have pieces, and all workers wait for
    /// each block.
    uint32_t blocks_at_once = 0;
};

/// Makes the plan together with the other workers. A collective.
///
/// keys, counts: this worker's features, and how many examples have each; report: of its examples
/// PlanOptions::block_count: there are never more blocks than features. 0 chooses the
///     number by two rules and takes the smaller result:
///     - As many blocks as an example has non-zeros on average. An example then has about one
///       feature in each block, and the features of a block hardly interfere.
///     - As many blocks as have round trips that take no longer than a worker's other work in a
///       pass. All workers wait for each round trip. For wide dense data this gives fewer, larger
///       blocks: a pass gains a little less (the number of passes falls like the square root of
///       the number of blocks) and costs far less.
///     The choice depends only on the data and the number of workers, never on the clock. So the
///     same job takes the same steps again.
/// Errors: kInvalidArgument if all workers together have no example; those of the exchange
[[nodiscard]] Result<FeaturePlan> plan_features(BlockExchange& exchange,
                                                std::span<const uint64_t> keys,
                                                std::span<const uint32_t> counts,
                                                const data::ReadReport& report,
                                                const PlanOptions& options);

/// How many of the examples have each of their keys.
[[nodiscard]] std::vector<uint32_t> count_features(const data::Examples& examples);

/// Examples of all workers. `mine`: what this worker has read. A collective.
/// Errors: as plan_features()
[[nodiscard]] Result<uint64_t> count_examples(BlockExchange& exchange,
                                              const data::ReadReport& mine);

}  // namespace weir::apps

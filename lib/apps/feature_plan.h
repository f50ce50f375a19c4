// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FeaturePlan: how the features are divided into blocks, and blocks into pieces. It is the same
/// for all workers.

#include <cstdint>

#include "lib/apps/block_exchange.h"
#include "lib/data/examples.h"
#include "lib/data/feature_matrix.h"

namespace weir::apps {

struct FeaturePlan {
    uint64_t example_count = 0;  ///< of all workers together, as are the next two
    uint64_t nonzero_count = 0;
    uint64_t feature_count = 0;  ///< different ones; an upper bound while !feature_count_exact
    bool feature_count_exact = false;
    double pass_cost_ns = 0;  ///< of a pass, of all workers together, roughly
    uint32_t block_count = 1;
    uint32_t pieces_per_block = 1;
    data::FeatureGroups groups;  ///< group = block * pieces_per_block + piece
};

/// Agrees on a plan. A collective.
///
/// block_count: 0 chooses by two rules. An example should meet a block about once: then the
///     features of a block hardly hinder each other. That takes as many blocks as an example has
///     non-zeros on average. But every block is a round trip to the servers, for which all
///     workers wait; in a pass they should take no more time than a worker's own work does. Where
///     wide dense data would get a block per feature, this leaves fewer, larger blocks: a pass
///     gains a little less (the number of passes falls like the square root of the number of
///     blocks) and costs far less. Never more blocks than features. The choice depends on the
///     data and the number of workers alone, never on the clock, so that the same job takes the
///     same steps again.
/// Errors: kInvalidArgument if all workers together have no example; those of the exchange
[[nodiscard]] Result<FeaturePlan> plan_features(BlockExchange& exchange,
                                                const data::Examples& examples,
                                                uint32_t block_count, uint64_t seed);

}  // namespace weir::apps

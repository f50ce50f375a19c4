// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FeaturePlan: how the features are cut into blocks, and blocks into pieces, the same for all
/// workers.

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
    uint32_t block_count = 1;
    uint32_t pieces_per_block = 1;
    data::FeatureGroups groups;  ///< group = block * pieces_per_block + piece
};

/// Agrees on a plan. A collective.
///
/// block_count: 0 chooses the average number of non-zeros per example, so that an example meets a
///     block about once: then a block's features hardly hinder each other. Never more than
///     features.
/// Errors: kInvalidArgument if all workers together have no example; those of the exchange
[[nodiscard]] Result<FeaturePlan> plan_features(BlockExchange& exchange,
                                                const data::Examples& examples,
                                                uint32_t block_count, uint64_t seed);

}  // namespace weir::apps

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Unseen features: features of the test files that no training line has. The model has no
/// weights for them. If there are many, the two sets of files probably number their features
/// differently.

#include <cstdint>
#include <span>

#include "lib/apps/lr/block_exchange.h"

namespace weir::apps {

struct UnseenFeatures {
    uint64_t feature_count = 0;  ///< different features in all workers' test lines
    uint64_t unseen_count = 0;   ///< those of them that no worker's training lines have
};

/// Counts the unseen features of all workers. Both lists are this worker's, without repeats, in
/// any order. A collective; a worker sends each of its features to the servers once.
/// Errors: the exchange's
[[nodiscard]] Result<UnseenFeatures> count_unseen(BlockExchange& exchange,
                                                  std::span<const uint64_t> train_keys,
                                                  std::span<const uint64_t> test_keys);

}  // namespace weir::apps

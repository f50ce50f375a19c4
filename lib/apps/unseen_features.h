// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Features of test files that no training line has: the model knows nothing of them, and many of
/// them say that the two sets of files number their features differently.

#include <cstdint>
#include <span>

#include "lib/apps/block_exchange.h"

namespace weir::apps {

struct UnseenFeatures {
    uint64_t feature_count = 0;  ///< different features in all workers' test lines
    uint64_t unseen_count = 0;   ///< of them, those that nobody's training lines have
};

/// Both lists are this worker's, without repeats, in any order. A collective; every feature goes to
/// the servers once. Errors: the exchange's
[[nodiscard]] Result<UnseenFeatures> count_unseen(BlockExchange& exchange,
                                                  std::span<const uint64_t> train_keys,
                                                  std::span<const uint64_t> test_keys);

}  // namespace weir::apps

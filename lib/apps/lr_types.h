// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What goes into the training of sparse logistic regression, and what comes out.

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "lib/apps/model.h"

namespace weir::apps {

/// The state after one pass over all features. The same for all workers.
struct LrProgress {
    uint32_t pass = 0;
    double seconds = 0;
    double objective = 0;
    uint64_t nonzero_count = 0;
    /// (objective - a proven lower bound of the optimum) / objective; infinity while none is known.
    double gap = std::numeric_limits<double>::infinity();
};

/// Minimises  sum_i log(1 + exp(-y_i w.x_i)) + l1 |w|_1.
struct LrOptions {
    double l1 = 1;
    uint32_t pass_count_max = 2000;
    double tolerance = 5e-4;   ///< the relative gap to end at
    uint32_t block_count = 0;  ///< 0: chosen from the data
    uint64_t seed = 1;         ///< of the blocks and their order; the same for all workers
    Model init;  ///< the weights to start from; features that no example has are left out
    std::function<void(const LrProgress&)> progress;  ///< after every pass; may be empty
    /// Asked after every pass, may be empty: not 0 ends the training for all workers. They need not
    /// give the same.
    std::function<int()> stop;
};

enum class LrEnd : uint8_t {
    kGap,         ///< the gap is proven to be within the tolerance
    kNoProgress,  ///< the later half of all passes gained less than a fifth of the tolerance, and
                  ///< less and less; see LrSolver::progress_has_ended()
    kPassCount,   ///< pass_count_max passes are done
    kStopped,     ///< a worker's LrOptions::stop wanted it
};

/// Counts and sums are over all workers; the same for each of them, but for what is marked.
struct LrResult {
    LrEnd end = LrEnd::kPassCount;
    int stop_reason = 0;              ///< the greatest that a worker's LrOptions::stop gave
    uint64_t init_feature_count = 0;  ///< of LrOptions::init: those that an example has
    double objective = 0;
    double gap = std::numeric_limits<double>::infinity();
    uint64_t nonzero_count = 0;
    double train_accuracy = 0;
    uint32_t pass_count = 0;
    double seconds = 0;
    uint64_t example_count = 0;
    uint64_t feature_count = 0;
    uint32_t block_count = 0;
    double waiting_share = 0;  ///< this worker's time spent waiting for others, of `seconds`
    std::vector<LrProgress> history;
};

}  // namespace weir::apps

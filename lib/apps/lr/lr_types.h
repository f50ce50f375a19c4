// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Options, progress and result of the training of sparse logistic regression.

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/apps/model.h"
#include "lib/base/result.h"

namespace weir::apps {

/// The state after one pass. The same for all workers.
struct LrProgress {
    uint32_t pass = 0;
    double seconds = 0;
    double objective = 0;
    uint64_t nonzero_count = 0;
    /// (objective - a proven lower bound of the optimum) / objective; infinity while none is
    /// known.
    double gap = std::numeric_limits<double>::infinity();
    double filtered_share = 0;  ///< of the features: those that it left out; see LrOptions::kkt
};

/// The ways to the optimum of examples that the workers hold.
enum class BatchKind : uint8_t {
    kProx,     ///< LrSolver
    kDelayed,  ///< DelayedSolver
    kLbfgs,    ///< LbfgsSolver
};

/// "prox", "delayed", "lbfgs".
[[nodiscard]] std::string_view name_of(BatchKind kind) noexcept;
[[nodiscard]] std::optional<BatchKind> batch_kind_named(std::string_view name) noexcept;

inline constexpr uint32_t kTauDefault = 8;

/// Minimises  sum_i loss_i(w) + l1 |w|_1 + l2/2 |w|^2; the others than kLbfgs with the logistic loss, and without l2.
struct LrOptions {
    BatchKind kind = BatchKind::kProx;
    Loss loss = Loss::kLogistic;
    data::ClassLabels classes{};  ///< of a softmax
    double l1 = 1;
    double l2 = 0;
    uint32_t pairs_max = 10;  ///< of kLbfgs: changes of the gradient that it remembers
    uint32_t pass_count_max = 2000;
    /// Training ends at this relative gap, or when passes gain no more. 0: neither ends it.
    double tolerance = 5e-4;
    uint32_t block_count = 0;  ///< 0: chosen from the data
    /// Passes leave out features whose weight is 0 and is to stay 0, as far as is known; some passes,
    /// and the one after which the training ends, do not (KktSchedule).
    bool kkt = true;
    uint32_t tau =
        kTauDefault;    ///< of kDelayed: blocks whose new weights a worker does not wait for
    uint64_t seed = 1;  ///< for the blocks and their order; the same for all workers
    Model init{};       ///< the weights to start from; features that no example has are left out
    std::function<void(const LrProgress&)> progress{};  ///< called after every pass; may be empty
    /// Called after every pass; may be empty. A result other than 0 at any worker ends the training
    /// for all workers. An error ends it for this worker alone, which must not be waited for then
    /// (Client::give_back_work()).
    std::function<Result<int>()> stop{};
    /// Of kDelayed; may be empty. Called when a block has been computed, before it is pushed: benchmarks simulate slower
    /// workers with it.
    std::function<void()> computed{};

    [[nodiscard]] LossFunction function() const noexcept { return {loss, classes.count()}; }
};

enum class LrEnd : uint8_t {
    kGap,         ///< the gap is proven to be within the tolerance
    kNoProgress,  ///< the later half of all passes gained less than a fifth of the tolerance, and
                  ///< the gains are falling; see EndRule::progress_has_ended()
    kPassCount,   ///< pass_count_max passes are done
    kStopped,     ///< a worker's LrOptions::stop returned another number than 0
};

/// Counts and sums are over all workers. All workers have the same result, except waiting_share.
struct LrResult {
    LrEnd end = LrEnd::kPassCount;
    int stop_reason = 0;              ///< the greatest result of the workers' LrOptions::stop
    uint64_t init_feature_count = 0;  ///< features of LrOptions::init that an example has
    double objective = 0;
    double gap = std::numeric_limits<double>::infinity();
    uint64_t nonzero_count = 0;
    uint32_t pass_count = 0;
    double seconds = 0;
    uint64_t example_count = 0;
    uint64_t feature_count = 0;
    uint32_t block_count = 0;
    double waiting_share = 0;  ///< the part of `seconds` that this worker waited for others
    std::vector<LrProgress> history;
};

}  // namespace weir::apps

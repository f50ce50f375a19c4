// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// DelayedSolver: one worker of sparse logistic regression by delayed block proximal gradient. It minimises
///     sum_i log(1 + exp(-y_i w.x_i)) + l1 |w|_1
/// and waits for nobody as long as no worker is more than tau blocks behind.
///
/// A pass goes over the blocks of features in random order, an iteration each: the worker pushes the gradient and the
/// curvature of its examples' loss by each feature, and pulls the weights that the servers make of all workers' parts
/// (prox_l1_step()). Then it goes on with the next block. It takes new weights over as they arrive, and waits only for
/// those of iteration t - tau - 1 before it begins with t.
///
/// So the gradient of a block lacks what up to tau others move meanwhile. The curvature makes up for it: it bounds the
/// loss within the reach of the block and of those that are under way here, by row, so a step is the shorter the more
/// of these share examples with it. Where nothing is late, steps are those without a delay.
///
/// Training begins with a round over the blocks of frequent features without delay. After a pass the workers sum
/// up the objective, while they are at the next one. Where this says that the training may have come to its end, all
/// meet and measure the duality gap.
///
/// Source: Li et al., OSDI 2014, algorithm 3; NIPS 2014, section 3

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "lib/apps/lr/batch_solver.h"
#include "lib/apps/lr/block_exchange.h"
#include "lib/apps/lr/end_rule.h"
#include "lib/apps/lr/feature_owners.h"
#include "lib/apps/lr/feature_plan.h"
#include "lib/apps/lr/lr_types.h"
#include "lib/base/random.h"
#include "lib/data/cache/column_blocks.h"
#include "lib/data/cache/column_cache.h"
#include "lib/linalg/columns.h"
#include "lib/train/kkt_filter.h"
#include "lib/train/kkt_schedule.h"

namespace weir::apps {

class DelayedSolver final : public BatchSolver {
public:
    /// Plans the blocks together with the other workers and lays out this worker's examples by
    /// block. A collective.
    ///
    /// Errors: kInvalidArgument for invalid options, and if no worker has an example; those of
    ///     the exchange, as in all functions here
    [[nodiscard]] static Result<DelayedSolver> create(BlockExchange& exchange,
                                                      data::Examples&& examples, LrOptions options);

    /// Reads the examples once more, into memory, because the cache cannot be used.
    using InMemory = std::function<Result<data::Examples>(const Error& why)>;

    /// The same with examples on disk. `in_memory`: called if the cache cannot be finished; may be empty.
    /// Errors: those of ColumnCache::finish() and ColumnBlocks::open(), too, also in solve()
    [[nodiscard]] static Result<DelayedSolver> create(BlockExchange& exchange,
                                                      data::ColumnCache&& cache, LrOptions options,
                                                      const InMemory& in_memory = {});

    [[nodiscard]] Result<LrResult> solve() override;
    [[nodiscard]] Result<Model> model(bool wanted) override;

    [[nodiscard]] std::span<const uint64_t> keys() const noexcept override {
        return blocks_.keys();
    }

    [[nodiscard]] std::span<const int8_t> labels() const noexcept override {
        return blocks_.labels();
    }

    [[nodiscard]] std::span<const double> margins() const noexcept override { return margins_; }

    [[nodiscard]] uint64_t data_bytes() const noexcept override { return blocks_.data_bytes(); }

private:
    /// A block that is under way: pushed, and its new weights not taken over yet.
    struct UnderWay {
        uint64_t iteration = 0;
        uint32_t block = 0;
        std::array<uint64_t, 2> list{};  ///< of `kept`: all features of the block
        KktFilter kept;
        std::optional<linalg::Columns> columns;  ///< of the block; none if all are left out
        std::vector<float>
            trust;  ///< of those that are kept, when they were pushed; empty: nothing waits behind it
        std::span<double> pairs;
        std::span<double> pulled;
    };

    /// What the workers sum up of a pass.
    enum Sum : size_t { kObjective, kNonzeros, kLeftOut, kWoken, kStops, kSumCount };

    using Sums = std::array<double, kSumCount>;

    /// A pass that has ended, while its sums are under way.
    struct Ended {
        double seconds = 0;
        bool is_judging = false;  ///< KktSchedule::is_judging()
    };

    DelayedSolver(BlockExchange& exchange, FeaturePlan plan, data::ColumnBlocks blocks,
                  LrOptions options);

    [[nodiscard]] static Result<FeaturePlan> plan(
        BlockExchange& exchange, std::span<const uint64_t> keys, std::span<const uint32_t> counts,
        const data::ReadReport& report, const LrOptions& options, uint32_t block_count_min);
    [[nodiscard]] static Result<DelayedSolver> make(BlockExchange& exchange, FeaturePlan plan,
                                                    data::ColumnBlocks blocks, LrOptions options);

    [[nodiscard]] linalg::ColumnRange block_range(uint32_t block) const noexcept {
        return {blocks_.group_begin()[block], blocks_.group_begin()[block + 1]};
    }

    [[nodiscard]] Status prepare();
    [[nodiscard]] Status take_init();
    [[nodiscard]] Result<LrEnd> run();
    [[nodiscard]] Status run_frequent_blocks();
    void begin_pass();
    [[nodiscard]] Status run_pass();
    [[nodiscard]] Status start_block(uint32_t block, uint32_t tau);
    void will_need(size_t place);
    [[nodiscard]] Result<linalg::Columns> open(uint32_t block);
    void bound_curvature(const UnderWay& block);
    [[nodiscard]] Status take_up_to(uint64_t iteration);
    void take(UnderWay& block);
    [[nodiscard]] Result<Sums> sums_here(bool asks_to_stop);
    [[nodiscard]] Status send_sums();
    [[nodiscard]] Status take_sums();
    void take_progress(const Sums& sums, const Ended& ended);
    [[nodiscard]] Result<std::optional<LrEnd>> meet();
    [[nodiscard]] Status measure_gap();
    [[nodiscard]] Status refresh_margins();

    BlockExchange* exchange_;
    LrOptions options_;
    FeaturePlan plan_;
    data::ColumnBlocks blocks_;
    Random random_;
    std::vector<uint32_t> block_order_;

    FeatureOwners owners_;                 // of the columns, by block
    std::vector<double> weights_;          // per column, as pulled last
    std::vector<float> trust_;             // per column: how far its next step may go, at least
    std::vector<double> margins_;          // per row, of weights_
    std::vector<linalg::RowTerm> terms_;   // per row
    std::vector<double> reach_under_way_;  // per row: of the blocks under way

    std::deque<UnderWay> under_way_;  // in rising order of iterations
    std::vector<UnderWay> free_;
    std::vector<uint64_t> last_iteration_;  // per block
    uint64_t iteration_ = 0;                // the last one pushed
    double share_of_late_;                  // of the reach under way that bounds the curvature

    KktSchedule kkt_;
    double left_out_count_ = 0;  // this worker's part of the features that the pass leaves out
    double woken_count_ = 0;     // the same of those that were at rest until it moved them

    std::optional<Ended> ended_;
    Sums sent_{};
    Sums received_{};
    uint32_t pass_ = 0;         // the one under way
    uint32_t meeting_ = 0;      // the pass after which all meet
    bool stays_whole_ = false;  // passes are over all features: progress seems to have ended
    bool is_to_stop_ = false;
    EndRule end_rule_;
    uint64_t start_ns_ = 0;
    LrResult result_;
};

}  // namespace weir::apps

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LrSolver: one worker of sparse logistic regression. It minimises
///     sum_i log(1 + exp(-y_i w.x_i)) + l1 |w|_1
/// by block proximal gradient, and takes one of two further steps after each pass.
///
/// A pass goes over the blocks of features in random order. For a block the worker computes the
/// gradient and curvature of its examples' loss by each feature, and pushes them piece by piece.
/// The servers add up all workers' parts and take a proximal step per feature (prox_l1_step()).
/// The worker pulls the new weights while later pieces are still in transit, and updates the
/// margins of its examples. The curvature is an upper bound within the trust region of the step,
/// so a pass can raise the objective only by the rounding of margins; see
/// linalg::gradient_and_curvature().
///
/// Most passes leave out the features that are to stay 0 (KktFilter), the same ones at all workers.
/// Nothing of the choice is kept elsewhere: a solver that begins, also one that goes on from weights,
/// begins with a pass over all features.
///
/// After a pass the workers sum up the objective and take one of two steps over many features:
/// - a joint Newton step over the features whose weights are not 0, or a random part of them
///   (lr_joint.cc), if all joint steps together cost no more than the passes so far. Worker 0
///   alone solves it.
/// - else a Newton step in the space that the ends of the last passes span (PassHistory). Every
///   worker solves this system of at most three unknowns by itself.
/// Both end in a line search along a direction. The workers push the step to the servers as a
/// move of the weights, and undo it if it raised the objective. From time to time the workers
/// also compute a duality gap, which bounds the distance to the optimum.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/apps/lr/batch_solver.h"
#include "lib/apps/lr/block_exchange.h"
#include "lib/apps/lr/end_rule.h"
#include "lib/apps/lr/feature_owners.h"
#include "lib/apps/lr/feature_plan.h"
#include "lib/apps/lr/lr_types.h"
#include "lib/apps/lr/pass_history.h"
#include "lib/apps/model.h"
#include "lib/base/random.h"
#include "lib/data/feature_matrix.h"
#include "lib/linalg/columns.h"
#include "lib/train/kkt_filter.h"
#include "lib/train/kkt_schedule.h"

namespace weir::apps {

class LrSolver final : public BatchSolver {
public:
    /// Plans the blocks together with the other workers and lays out this worker's examples by
    /// block. A collective.
    ///
    /// Errors: kInvalidArgument for invalid options, and if no worker has an example; those of
    ///     the exchange, as in all functions here
    [[nodiscard]] static Result<LrSolver> create(BlockExchange& exchange, data::Examples&& examples,
                                                 LrOptions options);

    [[nodiscard]] Result<LrResult> solve() override;
    [[nodiscard]] Result<Model> model(bool wanted) override;

    [[nodiscard]] std::span<const uint64_t> keys() const noexcept override { return matrix_.keys; }

    [[nodiscard]] std::span<const int8_t> labels() const noexcept override {
        return matrix_.labels;
    }

    [[nodiscard]] std::span<const double> margins() const noexcept override { return margins_; }

    [[nodiscard]] uint64_t data_bytes() const noexcept override { return matrix_.data_bytes(); }

private:
    struct Totals;
    struct JointSet;

    LrSolver(BlockExchange& exchange, FeaturePlan plan, data::FeatureMatrix matrix,
             LrOptions options);

    [[nodiscard]] linalg::Columns columns() const noexcept;
    [[nodiscard]] linalg::ColumnRange group_range(uint32_t group) const noexcept;
    [[nodiscard]] std::span<const uint64_t> group_keys(uint32_t group) const noexcept;

    [[nodiscard]] Status prepare();
    [[nodiscard]] Status run_pass();
    void choose_features();
    [[nodiscard]] std::span<const float> trust_of(const FeatureRange& range) const noexcept;
    [[nodiscard]] double filtered_share(const Totals& totals) const;
    [[nodiscard]] Status run_block(uint32_t block);
    void take_weights(linalg::ColumnRange range, std::span<const double> pulled, bool step);
    [[nodiscard]] Status measure(Totals& totals);
    [[nodiscard]] Status measure_gap(double objective);
    [[nodiscard]] Result<LrEnd> run();
    [[nodiscard]] Status take_init();
    [[nodiscard]] Status keep_best(Totals& totals);
    [[nodiscard]] Status return_to_best();
    void refresh_margins();
    [[nodiscard]] Status step_along_history(const Totals& totals);
    [[nodiscard]] Status step(const SparseWeights& direction, double objective);
    [[nodiscard]] Result<double> search_line(const SparseWeights& direction, double objective);
    [[nodiscard]] Status move(const SparseWeights& direction, double step);

    [[nodiscard]] std::optional<double> joint_fraction(const Totals& totals);
    [[nodiscard]] Status step_jointly(double fraction, double objective);
    [[nodiscard]] Result<JointSet> choose_jointly(double fraction);
    [[nodiscard]] Result<std::vector<double>> newton_step(const JointSet& set, double objective);
    [[nodiscard]] Status finish();

    BlockExchange* exchange_;
    LrOptions options_;
    FeaturePlan plan_;
    data::FeatureMatrix matrix_;
    Random random_;
    std::vector<uint32_t> block_order_;

    std::vector<double> weights_;         // per column, as the servers have them
    std::vector<float> trust_;            // per column, never below the servers'
    FeatureOwners owners_;                // of the columns, by group
    std::vector<double> margins_;         // per row
    std::vector<linalg::RowTerm> terms_;  // per row
    std::vector<double> scratch_;         // per row
    KktSchedule kkt_;
    KktFilter filter_;           // over the columns, by group
    double left_out_count_ = 0;  // this worker's part of the features that the pass leaves out
    double woken_count_ = 0;     // the same of those that were at rest until it moved them
    SparseWeights nonzeros_;     // of weights_, at the end of the last pass
    SparseWeights best_;         // the weights of best_objective_
    double best_objective_ = 0;  // the least measured so far
    PassHistory history_;
    EndRule end_rule_;
    double joint_spent_ns_ = 0;  // estimated cost of the joint steps minus that of the passes
    uint64_t joint_count_ = 0;   // joint steps taken

    std::span<double> pairs_;   // the values that a block pushes
    std::span<double> pulled_;  // the weights that a block pulls
    uint64_t iteration_ = 0;    // the last one pushed
    uint64_t start_ns_ = 0;
    LrResult result_;
};

}  // namespace weir::apps

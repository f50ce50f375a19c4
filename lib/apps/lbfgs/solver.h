// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LbfgsSolver: one worker of a training by L-BFGS. It minimises
///     sum_i loss_i(w) + l2/2 |w|^2 + l1 |w|_1
/// where the loss is any of apps::Loss; with l1 > 0 by OWL-QN (lib/apps/lbfgs/functions.h).
///
/// Workers have the examples and their scores, servers the weights, the last steps and what the gradients changed by
/// (LbfgsTables). In each iteration
///  - workers push their part of the gradient, and each calls functions on the features that it is the first to have;
///  - worker 0 asks for scalar products, decides on the direction (LbfgsDirection), and tells all;
///  - the servers make the step, and workers pull what it has for their features;
///  - they look for a length that lowers the objective enough. Along a line that needs no more than the step's scores; a
///    step of OWL-QN bends at orthants, and the servers make it anew for each length.
/// So what travels does not grow with the history.
///
/// With l2 > 0 the gradient proves how far the objective is from the optimum: by |g|^2 / (2 l2) at most.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/apps/lbfgs/direction.h"
#include "lib/apps/lbfgs/examples.h"
#include "lib/apps/lbfgs/tables.h"
#include "lib/apps/lr/batch_solver.h"
#include "lib/apps/lr/block_exchange.h"
#include "lib/apps/lr/feature_owners.h"
#include "lib/apps/lr/lr_types.h"
#include "lib/data/examples.h"

namespace weir::apps {

class LbfgsSolver final : public BatchSolver {
public:
    static constexpr double kTolerance = 1e-7;  ///< unless the user says another one

    /// Errors: kInvalidArgument for invalid options, and if no worker has an example; those of the exchange and the
    ///     tables, as in all functions here
    [[nodiscard]] static Result<LbfgsSolver> create(BlockExchange& exchange, LbfgsTables tables,
                                                    data::Examples&& examples, LrOptions options);

    [[nodiscard]] Result<LrResult> solve() override;
    [[nodiscard]] Result<Model> model(bool wanted) override;

    [[nodiscard]] std::span<const uint64_t> keys() const noexcept override {
        return examples_.matrix().keys;
    }

    [[nodiscard]] std::span<const int8_t> labels() const noexcept override {
        return examples_.matrix().labels;
    }

    [[nodiscard]] std::span<const double> margins() const noexcept override {
        return examples_.scores();
    }

    [[nodiscard]] uint64_t data_bytes() const noexcept override { return examples_.data_bytes(); }

    [[nodiscard]] LossSums loss_sums() const noexcept override { return examples_.sums(); }

private:
    LbfgsSolver(BlockExchange& exchange, LbfgsTables tables, LinearExamples examples,
                LrOptions options)
        : exchange_(&exchange),
          tables_(std::move(tables)),
          examples_(std::move(examples)),
          options_(std::move(options)),
          direction_(options_.pairs_max) {}

    [[nodiscard]] bool is_first() const noexcept { return exchange_->worker_index() == 0; }

    [[nodiscard]] Status prepare();
    [[nodiscard]] Result<LrEnd> run();
    [[nodiscard]] Status begin();
    [[nodiscard]] Status look(double length);
    [[nodiscard]] Status hear_direction();
    [[nodiscard]] Status step();
    [[nodiscard]] Result<LbfgsTables::StepSums> make_step(double length);
    [[nodiscard]] Result<double> search();
    [[nodiscard]] Result<double> search_line();
    [[nodiscard]] Result<double> search_orthant();
    [[nodiscard]] Result<LinearExamples::Loss> objective_at(double length,
                                                            const LbfgsTables::StepSums& sums);
    void note_progress();
    [[nodiscard]] bool has_stalled() const;
    [[nodiscard]] Status finish();

    BlockExchange* exchange_;
    LbfgsTables tables_;
    LinearExamples examples_;
    LrOptions options_;
    LbfgsDirection direction_;               ///< of worker 0
    std::array<double, 3> of_weights_ = {};  ///< of worker 0: as LbfgsTables::products() ends
    FeatureOwners owners_;
    std::span<double> values_;  ///< of this worker's features, as they are pushed and pulled

    // What worker 0 has told last.
    uint32_t slot_ = 0;
    bool has_pairs_ = false;
    double first_length_ = 1;  ///< of the direction, to try
    double square_ = 0;        ///< |w|^2
    std::vector<double> factors_;

    double loss_ = 0;       ///< of this worker's examples, at the last objective_at()
    double bound_ = 0;      ///< the optimum is not lower
    bool has_step_ = true;  ///< one has been found that lowers the objective
    uint64_t start_ns_ = 0;
    LrResult result_;
};

}  // namespace weir::apps

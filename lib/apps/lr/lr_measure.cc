// SPDX-License-Identifier: Apache-2.0
/// \file
/// LrSolver between two passes: the objective, the duality gap, and the step in the space of the
/// last passes.

#include <algorithm>
#include <array>
#include <cmath>

#include "lib/apps/lr/dual_bound.h"
#include "lib/apps/lr/lr_solver.h"
#include "lib/apps/lr/lr_totals.h"
#include "lib/base/prox.h"
#include "lib/linalg/logistic.h"

namespace weir::apps {

namespace {

/// The step lengths that the line search tries; 1 is the Newton step itself.
constexpr std::array<double, 8> kSteps = {0.001, 0.02, 0.125, 0.25, 0.5, 1, 2, 4};

/// A relative change of the objective up to this counts as rounding.
constexpr double kRounding = 1e-12;

}  // namespace

/// Computes the objective and the number of non-zeros after a pass, and the system for the step
/// along the history.
Status LrSolver::measure(Totals& totals) {
    nonzeros_ = SparseWeights::of(weights_);
    double penalty = 0;
    double count = 0;
    double entries = 0;
    for (uint64_t k = 0; k < nonzeros_.size(); ++k) {
        const uint32_t column = nonzeros_.columns[k];
        penalty += std::abs(nonzeros_.values[k]) * owners_.counted_part(column);
        count += owners_.counted_part(column);
        entries += static_cast<double>(matrix_.offsets[column + 1] - matrix_.offsets[column]);
    }
    totals.system =
        history_.system(matrix_.labels, {nonzeros_, margins_}, options_.l1,
                        [this](uint32_t column) { return owners_.counted_part(column); });
    std::array<double, 5 + PassHistory::kSystemSize> sums = {};
    sums[0] = linalg::logistic_loss_sum(matrix_.labels, margins_) + options_.l1 * penalty;
    sums[1] = count;
    sums[2] = entries;
    sums[3] = left_out_count_;
    sums[4] = woken_count_;
    std::copy(totals.system.begin(), totals.system.end(), sums.begin() + 5);
    WEIR_TRY(exchange_->sum(sums));
    totals.objective = sums[0];
    totals.entry_count = sums[2];
    result_.nonzero_count = static_cast<uint64_t>(std::llround(sums[1]));
    totals.left_out_count = sums[3];
    totals.woken_count = sums[4];
    std::copy(sums.begin() + 5, sums.end(), totals.system.begin());
    return {};
}

/// A pass raises the objective only by rounding. The rounding can be large where margins are
/// small differences of large numbers. If the objective has risen, this computes the margins anew
/// from the weights. If it is still higher, the weights return to the best ones so far.
Status LrSolver::keep_best(Totals& totals) {
    const auto risen = [&] { return !(totals.objective <= best_objective_ * (1 + kRounding)); };
    if (risen()) {
        refresh_margins();
        WEIR_TRY(measure(totals));
    }
    if (risen()) {
        WEIR_TRY(return_to_best());
        WEIR_TRY(measure(totals));
    }
    best_ = nonzeros_;
    best_objective_ = totals.objective;
    return {};
}

Status LrSolver::return_to_best() {
    for (int i = 0; i < 2; ++i) {  // the second move corrects the rounding of the first
        WEIR_TRY(move(add_scaled(best_, -1, SparseWeights::of(weights_)), 1));
    }
    refresh_margins();
    history_.forget();
    return {};
}

/// Computes the margins from the weights, without the rounding of the updates so far.
void LrSolver::refresh_margins() {
    std::fill(margins_.begin(), margins_.end(), 0.0);
    linalg::add_to_margins(columns(), {0, matrix_.column_count()}, weights_, margins_);
}

/// Takes a new lower bound of the optimum.
Status LrSolver::measure_gap(double objective) {
    if (options_.l1 == 0) {
        end_rule_.take_bound(result_, 0);
        return {};
    }
    linalg::logistic_slopes(matrix_.labels, margins_, scratch_);
    double steepest = 0;
    for (uint32_t group = 0; group < matrix_.group_count(); ++group) {
        const linalg::ColumnRange range = group_range(group);
        const std::span<double> gradient = pairs_.first(range.size());
        linalg::gradient(columns(), range, scratch_, gradient);
        WEIR_TRY(owners_.sum_by_feature(*exchange_, group, gradient, pulled_));
        for (const double slope : gradient)
            steepest = std::max(steepest, std::abs(slope));
    }
    WEIR_ASSIGN(const double bound,
                dual_bound(*exchange_, matrix_.labels, margins_, options_.l1, steepest, objective));
    end_rule_.take_bound(result_, bound);
    return {};
}

Status LrSolver::step_along_history(const Totals& totals) {
    if (history_.depth() == 0) {
        history_.remember(nonzeros_, margins_);
        return {};
    }
    const SparseWeights direction =
        history_.direction(totals.system, {nonzeros_, margins_}, scratch_);
    history_.remember(nonzeros_, margins_);
    return step(direction, totals.objective);
}

/// Moves along a direction, whose margins are in scratch_, by the length that the line search
/// finds. Then measures the objective again. If it has risen, because the direction was mostly
/// rounding, the weights return to the best ones so far.
Status LrSolver::step(const SparseWeights& direction, double objective) {
    WEIR_ASSIGN(const double length, search_line(direction, objective));
    if (length == 0) return {};
    WEIR_TRY(move(direction, length));
    const SparseWeights weights = SparseWeights::of(weights_);
    double now = linalg::logistic_loss_sum(matrix_.labels, margins_);
    for (uint64_t k = 0; k < weights.size(); ++k)
        now += options_.l1 * std::abs(weights.values[k]) * owners_.counted_part(weights.columns[k]);
    WEIR_TRY(exchange_->sum({&now, 1}));
    if (!(now <= objective)) return return_to_best();
    best_ = weights;
    best_objective_ = now;
    return {};
}

/// Returns the best of kSteps, or 0 if none lowers the objective.
Result<double> LrSolver::search_line(const SparseWeights& direction, double objective) {
    std::array<double, kSteps.size()> sums = {};
    for_each_column(nonzeros_, direction, [&](uint32_t column, double weight, double change) {
        const double part = options_.l1 * owners_.counted_part(column);
        for (uint64_t s = 0; s < kSteps.size(); ++s) {
            sums[s] += part * std::abs(weight + kSteps[s] * change);
        }
    });
    for (uint64_t s = 0; s < kSteps.size(); ++s) {
        sums[s] += linalg::logistic_loss_sum(matrix_.labels, margins_, scratch_, kSteps[s]);
    }
    WEIR_TRY(exchange_->sum(sums));
    const auto best =
        static_cast<uint64_t>(std::min_element(sums.begin(), sums.end()) - sums.begin());
    return sums[best] < objective * (1 - kRounding) ? kSteps[best] : 0.0;
}

/// Moves all weights along the direction, on the servers, in one iteration. Of the workers that have a
/// feature the first one pushes its move; a negative curvature marks that. All have the same direction, and
/// compute the weight as the servers do. (Where processors differ in a last bit, the next pull corrects it.)
Status LrSolver::move(const SparseWeights& direction, double step) {
    std::vector<uint64_t> mine;
    for (uint64_t i = 0; i < direction.size(); ++i) {
        if (owners_.is_mine(direction.columns[i])) mine.push_back(i);
    }
    const auto key_of = [&](uint64_t i) { return matrix_.keys[direction.columns[i]]; };
    std::sort(mine.begin(), mine.end(),
              [&](uint64_t a, uint64_t b) { return key_of(a) < key_of(b); });
    std::vector<uint64_t> keys;
    std::vector<double> pairs;
    for (const uint64_t i : mine) {
        keys.push_back(key_of(i));
        pairs.push_back(step * direction.values[i]);
        pairs.push_back(-1);
    }
    const WaitAtExit wait_at_exit(*exchange_);
    ++iteration_;
    exchange_->push(iteration_, keys, pairs, 0);
    WEIR_TRY(exchange_->wait(iteration_));
    for (uint64_t i = 0; i < direction.size(); ++i) {
        const uint64_t column = direction.columns[i];
        const ProxState<double> old{weights_[column]};
        const ProxState<double> moved =
            prox_l1_step(old, step * direction.values[i], -1.0, options_.l1);
        take_weights({column, column + 1}, {&moved.weight, 1}, false);
    }
    return {};
}

}  // namespace weir::apps

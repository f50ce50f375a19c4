// SPDX-License-Identifier: Apache-2.0
/// \file
/// LrSolver: the joint Newton step over the features whose weights are not 0.
///
/// Passes change one weight at a time. They converge slowly where columns are strongly
/// correlated: columns with a large constant in common (years, temperatures in kelvin),
/// polynomials, sums of other columns. Here the workers sum up the gradient and the whole Hessian
/// of the loss over the features in use. Worker 0 minimises this quadratic model plus the l1
/// penalty by an interior point method (linalg::minimise()) and sends the result to the others.
/// It is the direction of a line search. One worker solves alone because the system is small (at
/// most 1024 features) and its rounding must be the same for all. The step may set weights to 0,
/// but only passes change a weight from 0.

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/apps/allgather.h"
#include "lib/apps/lr/lr_solver.h"
#include "lib/apps/lr/lr_totals.h"
#include "lib/linalg/gram.h"
#include "lib/linalg/l1_quadratic.h"
#include "lib/linalg/logistic.h"

namespace weir::apps {

namespace {

/// The most features of a joint step. Their Hessian is summed in a few messages and factored in
/// tenths of a second.
constexpr uint64_t kFeatureCountMax = 1024;
/// With more features in use, up to this number, about kPartFeatureCount random ones take a step.
constexpr uint64_t kCandidateCountMax = 8192;
constexpr double kPartFeatureCount = 512;
/// Joint steps may cost as much as the passes so far, plus this much at the start.
constexpr double kCreditNs = 5e8;
/// The least value of the loss's second derivative. With 0 the quadratic model has no minimum.
constexpr double kBendMin = 1e-12;
/// The quadratic model is minimised to this precision, relative to the objective.
constexpr double kPrecision = 1e-8;

/// A pseudo-random number from 0 to 1 that is the same for all workers: it depends only on the
/// key and on the number of joint steps so far.
double random_unit(uint64_t key, uint64_t step_count) {
    return static_cast<double>(mix64(key ^ mix64(step_count + 1)) >> 11) * 0x1p-53;
}

}  // namespace

/// The features of a joint step, in the order of their keys, and this worker's columns of them.
struct LrSolver::JointSet {
    std::vector<uint64_t> keys;
    std::vector<uint32_t> columns;  ///< linalg::kNoColumn if no example of this worker has it
};

/// The fraction of the features in use that a joint step should take now. Empty if the step would
/// cost too much.
std::optional<double> LrSolver::joint_fraction(const Totals& totals) {
    joint_spent_ns_ -= plan_.pass_cost_ns;
    const uint64_t count = result_.nonzero_count;
    if (count == 0 || count > kCandidateCountMax) return std::nullopt;
    const double part =
        count <= kFeatureCountMax ? 1 : kPartFeatureCount / static_cast<double>(count);
    const double taken = part * static_cast<double>(count);
    const double entries = part * totals.entry_count;
    const double worker_count = exchange_->worker_count();
    const double cost_ns = 4 * entries +
                           0.7 * entries * entries / static_cast<double>(plan_.example_count) +
                           worker_count * (1.2 * taken * taken * taken + 40 * taken * taken + 2e4);
    if (joint_spent_ns_ + cost_ns > kCreditNs * worker_count) return std::nullopt;
    joint_spent_ns_ += cost_ns;
    return part;
}

Result<LrSolver::JointSet> LrSolver::choose_jointly(double fraction) {
    ++joint_count_;
    std::vector<std::pair<uint64_t, uint32_t>> here;
    for (const uint32_t column : nonzeros_.columns) {
        const uint64_t key = matrix_.keys[column];
        if (fraction == 1 || random_unit(key, joint_count_) < fraction)
            here.emplace_back(key, column);
    }
    std::sort(here.begin(), here.end());
    JointSet set;
    for (const auto& [key, column] : here)
        set.keys.push_back(key);
    WEIR_ASSIGN(set.keys, allgather(*exchange_, set.keys));
    std::sort(set.keys.begin(), set.keys.end());
    set.keys.erase(std::unique(set.keys.begin(), set.keys.end()), set.keys.end());
    set.keys.resize(std::min<uint64_t>(set.keys.size(), kFeatureCountMax));
    auto next = here.begin();
    for (const uint64_t key : set.keys) {
        const bool found = next != here.end() && next->first == key;
        set.columns.push_back(found ? (next++)->second : linalg::kNoColumn);
    }
    return set;
}

/// Returns the change of each weight of the set that minimises the quadratic model of all
/// workers' loss plus the penalty.
Result<std::vector<double>> LrSolver::newton_step(const JointSet& set, double objective) {
    const uint64_t count = set.keys.size();
    const uint64_t triangle = linalg::triangle_size(count);
    std::vector<double> sums(triangle + 2 * count);
    const std::span<double> curvature = std::span(sums).first(triangle);
    const std::span<double> gradient = std::span(sums).subspan(triangle, count);
    const std::span<double> weights = std::span(sums).last(count);
    linalg::logistic_slopes(matrix_.labels, margins_, scratch_);
    for (uint64_t k = 0; k < count; ++k) {
        const uint64_t column = set.columns[k];
        if (column == linalg::kNoColumn) continue;
        linalg::gradient(columns(), {column, column + 1}, scratch_, gradient.subspan(k, 1));
        weights[k] = weights_[column] * owners_.counted_part(column);
    }
    for (double& slope : scratch_)
        slope = std::max(std::abs(slope) * (1 - std::abs(slope)), kBendMin);
    linalg::add_weighted_gram(columns(), set.columns, scratch_, curvature);
    for (uint64_t at = 0; at < sums.size(); at += kReduceValueCountMax) {
        const uint64_t size = std::min<uint64_t>(kReduceValueCountMax, sums.size() - at);
        WEIR_TRY(exchange_->sum_at_first(std::span(sums).subspan(at, size)));
    }
    // Worker 0's result for all, because processors may differ in the last bit.
    std::vector<double> change(count, 0);
    if (exchange_->worker_index() == 0) {
        change =
            linalg::minimise({curvature, gradient, weights, options_.l1}, kPrecision * objective);
        for (double& c : change)
            c = std::isfinite(c) ? c : 0;
    }
    WEIR_TRY(exchange_->sum(change));
    return change;
}

Status LrSolver::step_jointly(double fraction, double objective) {
    refresh_margins();
    history_.remember(nonzeros_, margins_);
    WEIR_ASSIGN(const JointSet set, choose_jointly(fraction));
    WEIR_ASSIGN(const std::vector<double> change, newton_step(set, objective));
    std::vector<std::pair<uint32_t, double>> mine;
    std::fill(scratch_.begin(), scratch_.end(), 0.0);
    for (uint64_t k = 0; k < change.size(); ++k) {
        const uint32_t column = set.columns[k];
        if (column == linalg::kNoColumn || change[k] == 0) continue;
        mine.emplace_back(column, change[k]);
        linalg::add_to_margins(columns(), {column, column + uint64_t{1}}, {&change[k], 1},
                               scratch_);
    }
    std::sort(mine.begin(), mine.end());
    SparseWeights direction;
    for (const auto& [column, value] : mine) {
        direction.columns.push_back(column);
        direction.values.push_back(value);
    }
    return step(direction, objective);
}

}  // namespace weir::apps

// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/lr/lr_solver.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/core.h>

#include "lib/apps/lr/lr_totals.h"
#include "lib/base/clock.h"
#include "lib/base/prox.h"
#include "lib/linalg/logistic.h"

namespace weir::apps {

namespace {

double seconds_since(uint64_t start_ns) {
    return static_cast<double>(SteadyClock().now_ns() - start_ns) / static_cast<double>(kSecond);
}

}  // namespace

LrSolver::LrSolver(BlockExchange& exchange, FeaturePlan plan, data::FeatureMatrix matrix,
                   LrOptions options)
    : exchange_(&exchange),
      options_(std::move(options)),
      plan_(std::move(plan)),
      matrix_(std::move(matrix)),
      random_(options_.seed),
      kkt_(options_.kkt ? options_.l1 : 0) {}

Result<LrSolver> LrSolver::create(BlockExchange& exchange, data::Examples&& examples,
                                  LrOptions options) {
    WEIR_TRY(check_options(options));
    WEIR_ASSIGN(FeaturePlan plan,
                plan_features(exchange, examples.keys, {}, examples.report,
                              {.block_count = options.block_count, .seed = options.seed}));
    data::FeatureMatrix matrix = data::make_feature_matrix(std::move(examples), plan.groups);
    plan.groups.of = {};  // frees the list of features
    LrSolver solver(exchange, std::move(plan), std::move(matrix), std::move(options));
    WEIR_TRY(solver.prepare());
    return solver;
}

linalg::Columns LrSolver::columns() const noexcept {
    return {matrix_.offsets, matrix_.rows, matrix_.values};
}

linalg::ColumnRange LrSolver::group_range(uint32_t group) const noexcept {
    return {matrix_.group_begin[group], matrix_.group_begin[group + 1]};
}

std::span<const uint64_t> LrSolver::group_keys(uint32_t group) const noexcept {
    const linalg::ColumnRange range = group_range(group);
    return std::span(matrix_.keys).subspan(range.begin, range.size());
}

Status LrSolver::prepare() {
    weights_.assign(matrix_.column_count(), 0);
    trust_.assign(matrix_.column_count(), static_cast<float>(kFirstTrust));
    margins_.assign(matrix_.row_count(), 0);
    terms_.assign(matrix_.row_count(), {});
    scratch_.assign(matrix_.row_count(), 0);
    block_order_.resize(plan_.block_count);
    std::iota(block_order_.begin(), block_order_.end(), 0U);
    uint64_t widest = 0;
    for (uint32_t block = 0; block < plan_.block_count; ++block) {
        const uint32_t group = block * plan_.pieces_per_block;
        widest = std::max(widest, matrix_.group_begin[group + plan_.pieces_per_block] -
                                      matrix_.group_begin[group]);
    }
    WEIR_ASSIGN(pairs_, exchange_->make_buffer(2 * widest));
    WEIR_ASSIGN(pulled_, exchange_->make_buffer(widest));
    filter_ = KktFilter(matrix_.group_begin, matrix_.keys);
    WEIR_ASSIGN(owners_,
                FeatureOwners::find(*exchange_, matrix_.keys, matrix_.group_begin, pulled_));
    plan_.feature_count = owners_.feature_count();
    end_rule_ = EndRule(options_.tolerance, plan_.pass_cost_ns / exchange_->worker_count());
    result_.example_count = plan_.example_count;
    result_.feature_count = plan_.feature_count;
    result_.block_count = plan_.block_count;
    return {};
}

Result<LrResult> LrSolver::solve() {
    WEIR_CHECK(iteration_ == 0);
    start_ns_ = SteadyClock().now_ns();
    const uint64_t waited_before_ns = exchange_->waited_ns();
    WEIR_ASSIGN(result_.end, run());
    result_.seconds = seconds_since(start_ns_);
    result_.waiting_share = static_cast<double>(exchange_->waited_ns() - waited_before_ns) /
                            static_cast<double>(kSecond) / std::max(result_.seconds, 1e-9);
    WEIR_TRY(finish());
    return result_;
}

/// Makes passes until one of the ends in LrEnd is reached.
Result<LrEnd> LrSolver::run() {
    best_objective_ = std::log(2.0) * static_cast<double>(plan_.example_count);
    if (!options_.init.keys.empty()) WEIR_TRY(take_init());
    while (true) {
        WEIR_TRY(run_pass());
        Totals totals;
        WEIR_TRY(measure(totals));
        WEIR_TRY(keep_best(totals));
        ++result_.pass_count;
        result_.objective = totals.objective;
        const bool last = result_.pass_count == options_.pass_count_max;
        const bool slow = end_rule_.progress_has_ended(result_);
        const bool stuck = slow && kkt_.may_settle();
        const bool due = end_rule_.gap_is_due(result_);
        // The gap is that of all features: after a pass over some of them, it would be wide.
        const bool measured = kkt_.is_whole() && (last || stuck || due);
        if (measured) WEIR_TRY(measure_gap(totals.objective));
        result_.gap = end_rule_.gap(result_.objective);
        result_.history.push_back({result_.pass_count, seconds_since(start_ns_), totals.objective,
                                   result_.nonzero_count, result_.gap, filtered_share(totals)});
        if (options_.progress) options_.progress(result_.history.back());
        const bool is_proven = options_.tolerance > 0 && result_.gap <= options_.tolerance;
        const double done = is_proven && kkt_.is_whole() ? 3 : stuck ? 2 : last ? 1 : 0;
        const bool next_is_whole = slow || is_proven ||
                                   (due && !measured && end_rule_.gap_is_hopeful(result_)) ||
                                   result_.pass_count + 1 == options_.pass_count_max;
        // Machines may differ in the last bit of the gap, and all workers must decide the same.
        WEIR_ASSIGN(const int stop, options_.stop ? options_.stop() : 0);
        std::array<double, 3> decision = {done, static_cast<double>(stop),
                                          next_is_whole ? 1.0 : 0.0};
        WEIR_TRY(exchange_->max(decision));
        if (decision[0] == 3) return LrEnd::kGap;
        if (decision[0] == 2) return LrEnd::kNoProgress;
        if (decision[0] == 1) return LrEnd::kPassCount;
        if (decision[1] != 0) {
            result_.stop_reason = static_cast<int>(decision[1]);
            if (!measured) WEIR_TRY(measure_gap(totals.objective));
            result_.gap = end_rule_.gap(result_.objective);
            result_.history.back().gap = result_.gap;
            return LrEnd::kStopped;
        }
        if (kkt_.is_judging())
            kkt_.judge(static_cast<uint64_t>(std::llround(totals.woken_count)),
                       result_.nonzero_count);
        kkt_.begin_next(decision[2] != 0);
        if (const std::optional<double> fraction = joint_fraction(totals)) {
            WEIR_TRY(step_jointly(*fraction, totals.objective));
        } else {
            WEIR_TRY(step_along_history(totals));
        }
    }
}

/// Moves the weights to LrOptions::init in one move. If they are worse than weights of 0,
/// keep_best() returns to 0 after the first pass.
Status LrSolver::take_init() {
    const Model& init = options_.init;
    SparseWeights start;
    double known = 0;
    for (uint64_t column = 0; column < matrix_.column_count(); ++column) {
        const auto found =
            std::lower_bound(init.keys.begin(), init.keys.end(), matrix_.keys[column]);
        if (found == init.keys.end() || *found != matrix_.keys[column]) continue;
        known += owners_.counted_part(column);
        start.columns.push_back(static_cast<uint32_t>(column));
        start.values.push_back(init.weights[static_cast<size_t>(found - init.keys.begin())]);
    }
    WEIR_TRY(exchange_->sum({&known, 1}));
    result_.init_feature_count = static_cast<uint64_t>(std::llround(known));
    end_rule_.measure_gap_from(2);  // the start may be near the optimum
    return move(start, 1);
}

double LrSolver::filtered_share(const Totals& totals) const {
    return totals.left_out_count / static_cast<double>(std::max<uint64_t>(1, plan_.feature_count));
}

/// Computes the final numbers, from margins without the rounding of the passes.
Status LrSolver::finish() {
    refresh_margins();
    double penalty = 0;
    for (uint64_t k = 0; k < nonzeros_.size(); ++k) {
        penalty += std::abs(nonzeros_.values[k]) * owners_.counted_part(nonzeros_.columns[k]);
    }
    result_.objective = linalg::logistic_loss_sum(matrix_.labels, margins_) + options_.l1 * penalty;
    return exchange_->sum(std::span(&result_.objective, 1));
}

Result<Model> LrSolver::model(bool wanted) {
    return owners_.gather(*exchange_, weights_, 1, wanted);
}

}  // namespace weir::apps

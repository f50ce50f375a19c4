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

/// The rule for "no progress" ends no training before kPassCountMin passes, because trust may
/// still be growing. If passes are cheap it waits for as many as take about kPatienceNs, but for
/// at most kCheapPassCountMin.
constexpr double kPassCountMin = 20;
constexpr double kCheapPassCountMin = 400;
constexpr double kPatienceNs = 1e9;

double seconds_since(uint64_t start_ns) {
    return static_cast<double>(SteadyClock().now_ns() - start_ns) / static_cast<double>(kSecond);
}

Status check(const LrOptions& options) {
    if (!(options.l1 >= 0) || std::isinf(options.l1)) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("l1 is {}; it must be a finite number from 0", options.l1));
    }
    if (!(options.tolerance >= 0)) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("tolerance is {}; it must be a number from 0", options.tolerance));
    }
    if (options.pass_count_max == 0) {
        return Error(Errc::kInvalidArgument, "passes is 0; at least one is needed");
    }
    return {};
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
    WEIR_TRY(check(options));
    WEIR_ASSIGN(FeaturePlan plan,
                plan_features(exchange, examples, options.block_count, options.seed));
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
    pass_count_min_ = std::clamp(kPatienceNs * exchange_->worker_count() / plan_.pass_cost_ns,
                                 kPassCountMin, kCheapPassCountMin);
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
    next_gap_pass_ = 5;
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
        const bool slow = progress_has_ended();
        const bool stuck = slow && kkt_.may_settle();
        const bool due = gap_is_due();
        // The gap is that of all features: after a pass over some of them, it would be wide.
        const bool measured = kkt_.is_whole() && (last || stuck || due);
        if (measured) WEIR_TRY(measure_gap(totals.objective));
        update_gap();
        result_.history.push_back({result_.pass_count, seconds_since(start_ns_), totals.objective,
                                   result_.nonzero_count, result_.gap, filtered_share(totals)});
        if (options_.progress) options_.progress(result_.history.back());
        const bool is_proven = options_.tolerance > 0 && result_.gap <= options_.tolerance;
        const double done = is_proven && kkt_.is_whole() ? 3 : stuck ? 2 : last ? 1 : 0;
        const bool next_is_whole = slow || is_proven || (due && !measured && gap_is_hopeful()) ||
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
            update_gap();
            result_.history.back().gap = result_.gap;
            return LrEnd::kStopped;
        }
        kkt_.end_pass(static_cast<uint64_t>(std::llround(totals.woken_count)),
                      result_.nonzero_count, decision[2] != 0);
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
    next_gap_pass_ = 2;  // the start may be near the optimum
    return move(start, 1);
}

/// Computes the gap from the best lower bound so far.
void LrSolver::update_gap() {
    result_.gap = dual_ > 0 ? std::max(0.0, result_.objective - dual_) / result_.objective
                            : std::numeric_limits<double>::infinity();
}

bool LrSolver::gap_is_due() const {
    if (result_.pass_count < next_gap_pass_) return false;
    // The gap is at least the gain of the next pass. While passes gain much, it cannot be small.
    const double before = result_.history.back().objective;
    return before - result_.objective <= options_.tolerance * result_.objective;
}

/// Whether the gap is unknown, or near enough to the tolerance for a pass over all features before its
/// time. Else it is measured after the next such pass.
bool LrSolver::gap_is_hopeful() const {
    constexpr double kNear = 20;
    return std::isinf(result_.gap) || result_.gap <= kNear * options_.tolerance;
}

double LrSolver::filtered_share(const Totals& totals) const {
    return totals.left_out_count / static_cast<double>(std::max<uint64_t>(1, plan_.feature_count));
}

/// If the objective converges like 1 / passes, about as much is left to gain as the later half of
/// the passes gained; if it converges faster, much less is left. If it converges more slowly, the
/// gains do not fall from the third quarter of the passes to the fourth. Then the remaining gain
/// is unknown and the training goes on.
bool LrSolver::progress_has_ended() const {
    const uint32_t passes = result_.pass_count;
    if (passes < pass_count_min_ || options_.tolerance == 0) return false;
    const double now = result_.objective;
    const double half = result_.history[passes / 2 - 1].objective;
    const double quarter = result_.history[passes * 3 / 4 - 1].objective;
    const double enough_gained = options_.tolerance / 5 * now;
    if (half - now >= enough_gained) return false;
    return quarter - now <= 0.6 * (half - quarter) || half - now <= enough_gained / 100;
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

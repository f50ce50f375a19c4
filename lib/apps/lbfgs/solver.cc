// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/lbfgs/solver.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/core.h>

#include "lib/apps/lr/end_rule.h"
#include "lib/apps/lr/feature_plan.h"
#include "lib/base/clock.h"

namespace weir::apps {
namespace {

// A step must lower the objective by such a part of what its slope promises, and must not leave more than such a part
// of the slope.
constexpr double kArmijo = 1e-4;
constexpr double kWolfe = 0.9;
constexpr uint32_t kTrialsMax = 40;

/// A relative change of the objective up to this counts as rounding.
constexpr double kRounding = 1e-13;

double seconds_since(uint64_t start_ns) {
    return static_cast<double>(SteadyClock().now_ns() - start_ns) / static_cast<double>(kSecond);
}

Status check(const LrOptions& options) {
    WEIR_TRY(check_options(options));
    if (options.pairs_max > 0 && options.pairs_max <= LbfgsDirection::kPairsMax) return {};
    return Error(Errc::kInvalidArgument, fmt::format("history is {}; it must be from 1 to {}",
                                                     options.pairs_max, LbfgsDirection::kPairsMax));
}

}  // namespace

Result<LbfgsSolver> LbfgsSolver::create(BlockExchange& exchange, LbfgsTables tables,
                                        data::Examples&& examples, LrOptions options) {
    WEIR_TRY(check(options));
    WEIR_ASSIGN(const uint64_t example_count, count_examples(exchange, examples.report));
    const LossFunction function = options.function();
    LbfgsSolver solver(exchange, std::move(tables),
                       LinearExamples(data::make_feature_matrix(std::move(examples)), function),
                       std::move(options));
    solver.result_.example_count = example_count;
    WEIR_TRY(solver.prepare());
    return solver;
}

Status LbfgsSolver::prepare() {
    const data::FeatureMatrix& matrix = examples_.matrix();
    WEIR_ASSIGN(values_, exchange_->make_buffer(examples_.value_count()));
    WEIR_ASSIGN(owners_, FeatureOwners::find(*exchange_, matrix.keys, matrix.group_begin, values_));
    result_.feature_count = owners_.feature_count();
    std::vector<uint64_t> own;
    for (uint64_t feature = 0; feature < matrix.column_count(); ++feature) {
        if (owners_.is_mine(feature)) own.push_back(matrix.keys[feature]);
    }
    tables_.set_own(std::move(own));
    return {};
}

Result<LrResult> LbfgsSolver::solve() {
    start_ns_ = SteadyClock().now_ns();
    const uint64_t waited_before_ns = exchange_->waited_ns();
    WEIR_ASSIGN(result_.end, run());
    result_.seconds = seconds_since(start_ns_);
    result_.waiting_share = static_cast<double>(exchange_->waited_ns() - waited_before_ns) /
                            static_cast<double>(kSecond) / std::max(result_.seconds, 1e-9);
    WEIR_TRY(finish());
    return result_;
}

/// Takes steps until one of the ends in LrEnd is reached.
Result<LrEnd> LbfgsSolver::run() {
    WEIR_TRY(begin());
    while (true) {
        WEIR_TRY(step());
        ++result_.pass_count;
        note_progress();
        const bool is_proven = options_.tolerance > 0 && result_.gap <= options_.tolerance;
        const bool is_last = result_.pass_count == options_.pass_count_max;
        WEIR_ASSIGN(const int stop, options_.stop ? options_.stop() : 0);
        // Machines may differ in the last bit of the gap, and all workers must decide the same.
        std::array<double, 2> decision = {is_proven       ? 3.0
                                          : has_stalled() ? 2.0
                                          : is_last       ? 1.0
                                                          : 0.0,
                                          static_cast<double>(stop)};
        WEIR_TRY(exchange_->max(decision));
        if (decision[0] == 3) return LrEnd::kGap;
        if (decision[0] == 2) return LrEnd::kNoProgress;
        if (decision[0] == 1) return LrEnd::kPassCount;
        if (decision[1] != 0) {
            result_.stop_reason = static_cast<int>(decision[1]);
            return LrEnd::kStopped;
        }
    }
}

/// Of LrOptions::init, the weights of features that an example has.
Status LbfgsSolver::begin() {
    const Model& init = options_.init;
    const size_t width = options_.function().width();
    std::vector<uint64_t> own;
    std::vector<double> weights;
    double known = 0;
    std::ranges::fill(values_, 0);
    for (uint64_t feature = 0; feature < keys().size(); ++feature) {
        const auto found = std::ranges::lower_bound(init.keys, keys()[feature]);
        if (found == init.keys.end() || *found != keys()[feature]) continue;
        known += owners_.counted_part(feature);
        const auto of_feature =
            std::span(init.weights)
                .subspan(static_cast<size_t>(found - init.keys.begin()) * width, width);
        std::ranges::copy(of_feature,
                          values_.begin() + static_cast<std::ptrdiff_t>(feature * width));
        if (!owners_.is_mine(feature)) continue;
        own.push_back(keys()[feature]);
        weights.insert(weights.end(), of_feature.begin(), of_feature.end());
    }
    WEIR_TRY(tables_.begin(own, weights));
    WEIR_TRY(exchange_->sum({&known, 1}));
    result_.init_feature_count = static_cast<uint64_t>(std::llround(known));
    examples_.set_weights(values_);
    loss_ = examples_.loss_at(0).loss;
    return look(0);
}

/// Brings the gradient of the last objective_at() to the servers, and hears what is to come next. `length`: of the step
/// that was taken; 0: none was.
Status LbfgsSolver::look(double length) {
    examples_.gradient(values_);
    WEIR_TRY(tables_.push_gradient(keys(), values_));
    WEIR_TRY(tables_.keep(slot_, length));
    WEIR_TRY(exchange_->barrier());
    if (is_first()) {
        WEIR_ASSIGN(const std::vector<double> found, tables_.products(slot_));
        const std::span<const double> products(found);
        const size_t count = direction_.basis_count();
        if (length != 0)
            direction_.add_pair(products.first(3 * count));
        else
            direction_.set_gradient(products.first(count));
        std::ranges::copy(products.last(of_weights_.size()), of_weights_.begin());
    }
    return hear_direction();
}

Status LbfgsSolver::hear_direction() {
    /// What worker 0 tells, and all sum up: the others add zeros. As long for any history.
    enum Told : size_t {
        kLoss,  // of all workers
        kSlot,
        kHasPairs,
        kFirstLength,
        kGradientSquare,
        kSquare,
        kNorm1,
        kNonzeros,
        kFactors,
        kToldCount = kFactors + LbfgsDirection::basis_count(LbfgsDirection::kPairsMax)
    };

    std::array<double, kToldCount> told = {};
    const auto tell_weights = [&] {
        told = {};
        told[kSquare] = of_weights_[0];
        told[kNorm1] = of_weights_[1];
        told[kNonzeros] = of_weights_[2];
    };
    const auto tell = [&] {
        tell_weights();
        const bool has_pairs = direction_.has_pairs();
        const double gradient_square = direction_.gradient_square();
        told[kSlot] = direction_.slot();
        told[kHasPairs] = has_pairs ? 1 : 0;
        told[kFirstLength] = has_pairs ? 1 : 1 / std::max(1.0, std::sqrt(gradient_square));
        told[kGradientSquare] = gradient_square;
        std::ranges::copy(direction_.factors(), told.begin() + kFactors);
        return std::ranges::all_of(told, [](double number) { return std::isfinite(number); });
    };
    if (is_first() && !tell()) {  // products of steps near rounding overflow
        direction_.forget();
        if (!tell()) tell_weights();  // no step
    }
    told[kLoss] = loss_;
    WEIR_TRY(exchange_->sum(told));
    slot_ = static_cast<uint32_t>(told[kSlot]);
    has_pairs_ = told[kHasPairs] != 0;
    first_length_ = told[kFirstLength];
    square_ = told[kSquare];
    factors_.assign(told.begin() + kFactors, told.end());
    result_.nonzero_count = static_cast<uint64_t>(std::llround(told[kNonzeros]));
    result_.objective = told[kLoss] + options_.l2 / 2 * square_ + options_.l1 * told[kNorm1];
    if (options_.l2 > 0) {
        bound_ = std::max(bound_, result_.objective - told[kGradientSquare] / (2 * options_.l2));
        result_.gap =
            result_.objective > bound_ ? (result_.objective - bound_) / result_.objective : 0;
    }
    return {};
}

Status LbfgsSolver::step() {
    WEIR_ASSIGN(double length, search());
    if (length == 0 && has_pairs_) {  // maybe they mislead
        direction_.forget();
        WEIR_TRY(hear_direction());
        WEIR_ASSIGN(length, search());
    }
    has_step_ = length != 0;
    if (!has_step_) return {};
    WEIR_TRY(tables_.take_step(length));
    examples_.move(length);
    return look(length);
}

/// The servers make the step; the worker gets what it changes of its scores.
Result<LbfgsTables::StepSums> LbfgsSolver::make_step(double length) {
    WEIR_TRY(tables_.make_step(length, factors_));
    WEIR_TRY(exchange_->barrier());
    std::array<double, 4> told = {};
    if (is_first()) {
        WEIR_ASSIGN(const LbfgsTables::StepSums sums, tables_.step_sums());
        told = {sums.slope, sums.with_weights, sums.square, sums.norm1};
    }
    WEIR_TRY(tables_.pull_step(keys(), values_));
    examples_.set_step(values_);
    WEIR_TRY(exchange_->sum(told));
    return LbfgsTables::StepSums{told[0], told[1], told[2], told[3]};
}

/// Without the l1 norm.
Result<LinearExamples::Loss> LbfgsSolver::objective_at(double length,
                                                       const LbfgsTables::StepSums& sums) {
    const LinearExamples::Loss mine = examples_.loss_at(length);
    loss_ = mine.loss;
    std::array<double, 2> all = {mine.loss, mine.slope};
    WEIR_TRY(exchange_->sum(all));
    const double square = square_ + length * (2 * sums.with_weights + length * sums.square);
    return LinearExamples::Loss{all[0] + options_.l2 / 2 * square,
                                all[1] + options_.l2 * (sums.with_weights + length * sums.square)};
}

/// The length of the step that the servers have made; 0: there is none that lowers the objective.
Result<double> LbfgsSolver::search() {
    return options_.l1 > 0 ? search_orthant() : search_line();
}

/// Halves and doubles it until objective and slope have fallen enough.
Result<double> LbfgsSolver::search_line() {
    WEIR_ASSIGN(const LbfgsTables::StepSums sums, make_step(first_length_));
    if (!(sums.slope < 0)) return 0;
    double low = 0;
    double high = std::numeric_limits<double>::infinity();
    double length = 1;
    for (uint32_t trial = 0; trial < kTrialsMax; ++trial) {
        WEIR_ASSIGN(const LinearExamples::Loss at, objective_at(length, sums));
        const double enough = result_.objective * (1 + kRounding) + kArmijo * length * sums.slope;
        if (!(at.loss <= enough)) {
            high = length;
        } else if (at.slope < kWolfe * sums.slope) {
            low = length;
        } else {
            return length;
        }
        length = std::isinf(high) ? 2 * low : (low + high) / 2;
    }
    WEIR_ASSIGN([[maybe_unused]] const LinearExamples::Loss at, objective_at(low, sums));
    return low;
}

Result<double> LbfgsSolver::search_orthant() {
    LbfgsTables::StepSums sums;
    double length = first_length_;
    for (uint32_t trial = 0; trial < kTrialsMax; ++trial) {
        WEIR_ASSIGN(sums, make_step(length));
        if (!(sums.slope < 0)) break;
        WEIR_ASSIGN(const LinearExamples::Loss at, objective_at(1, sums));
        const double objective = at.loss + options_.l1 * sums.norm1;
        if (objective <= result_.objective * (1 + kRounding) + kArmijo * sums.slope) return 1;
        length /= 2;
    }
    WEIR_ASSIGN([[maybe_unused]] const LinearExamples::Loss here, objective_at(0, sums));
    return 0;
}

void LbfgsSolver::note_progress() {
    result_.history.push_back({result_.pass_count, seconds_since(start_ns_), result_.objective,
                               result_.nonzero_count, result_.gap, 0});
    if (options_.progress) options_.progress(result_.history.back());
}

/// No step lowers the objective, or the last ones together have gained too little.
bool LbfgsSolver::has_stalled() const {
    constexpr size_t kSteps = 10;
    if (options_.tolerance == 0) return false;
    if (!has_step_) return true;
    const std::vector<LrProgress>& history = result_.history;
    if (history.size() <= kSteps) return false;
    const double gained = history[history.size() - 1 - kSteps].objective - result_.objective;
    return gained < options_.tolerance / 100 * result_.objective;
}

/// Computes the final numbers, from the servers' weights.
Status LbfgsSolver::finish() {
    WEIR_TRY(tables_.pull_weights(keys(), values_));
    examples_.set_weights(values_);
    const size_t width = options_.function().width();
    result_.objective = examples_.loss_at(0).loss;
    for (uint64_t feature = 0; feature < keys().size(); ++feature) {
        for (const double weight : values_.subspan(feature * width, width))
            result_.objective +=
                owners_.counted_part(feature) *
                (options_.l1 * std::abs(weight) + options_.l2 / 2 * weight * weight);
    }
    return exchange_->sum({&result_.objective, 1});
}

Result<Model> LbfgsSolver::model(bool wanted) {
    return owners_.gather(*exchange_, values_, options_.function().width(), wanted);
}

}  // namespace weir::apps

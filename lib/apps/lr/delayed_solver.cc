// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/lr/delayed_solver.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/core.h>

#include "lib/apps/lr/dual_bound.h"
#include "lib/base/clock.h"
#include "lib/base/prox.h"
#include "lib/linalg/logistic.h"

namespace weir::apps {
namespace {

/// A block may be late for those before and for those behind it. So twice the reach that is under way bounds the
/// curvature for sure. Examples in which all of these move to the same side are rare: less is enough, as long as the
/// objective does not rise.
constexpr double kFirstShareOfLate = 0.5;
constexpr double kShareOfLateMax = 2;

double seconds_from(uint64_t start_ns) {
    return static_cast<double>(SteadyClock().now_ns() - start_ns) / static_cast<double>(kSecond);
}

}  // namespace

DelayedSolver::DelayedSolver(BlockExchange& exchange, FeaturePlan plan, data::ColumnBlocks blocks,
                             LrOptions options)
    : exchange_(&exchange),
      options_(std::move(options)),
      plan_(std::move(plan)),
      blocks_(std::move(blocks)),
      random_(options_.seed),
      share_of_late_(kFirstShareOfLate),
      kkt_(options_.kkt ? options_.l1 : 0) {}

Result<FeaturePlan> DelayedSolver::plan(BlockExchange& exchange, std::span<const uint64_t> keys,
                                        std::span<const uint32_t> counts,
                                        const data::ReadReport& report, const LrOptions& options,
                                        uint32_t block_count_min) {
    WEIR_TRY(check_options(options));
    return plan_features(exchange, keys, counts, report,
                         {.block_count = options.block_count,
                          .block_count_min = block_count_min,
                          .seed = options.seed,
                          .blocks_at_once = options.tau + 1});
}

Result<DelayedSolver> DelayedSolver::make(BlockExchange& exchange, FeaturePlan plan,
                                          data::ColumnBlocks blocks, LrOptions options) {
    plan.groups.of = {};  // frees the list of features
    DelayedSolver solver(exchange, std::move(plan), std::move(blocks), std::move(options));
    WEIR_TRY(solver.prepare());
    return solver;
}

Result<DelayedSolver> DelayedSolver::create(BlockExchange& exchange, data::Examples&& examples,
                                            LrOptions options) {
    WEIR_ASSIGN(FeaturePlan plan,
                DelayedSolver::plan(exchange, examples.keys, count_features(examples),
                                    examples.report, options, 1));
    data::ColumnBlocks blocks(data::make_feature_matrix(std::move(examples), plan.groups));
    return make(exchange, std::move(plan), std::move(blocks), std::move(options));
}

Result<DelayedSolver> DelayedSolver::create(BlockExchange& exchange, data::ColumnCache&& cache,
                                            LrOptions options, const InMemory& in_memory) {
    WEIR_ASSIGN(FeaturePlan plan,
                DelayedSolver::plan(exchange, cache.keys(), cache.counts(), cache.report(), options,
                                    cache.block_count_min(options.tau + 2)));
    Result<data::ColumnBlocks> blocks = std::move(cache).finish(plan.groups);
    if (!blocks && in_memory) {
        WEIR_ASSIGN(data::Examples examples, in_memory(blocks.error()));
        blocks = data::ColumnBlocks(data::make_feature_matrix(std::move(examples), plan.groups));
    }
    if (!blocks) return blocks.error();
    return make(exchange, std::move(plan), *std::move(blocks), std::move(options));
}

Status DelayedSolver::prepare() {
    weights_.assign(blocks_.column_count(), 0);
    trust_.assign(blocks_.column_count(), static_cast<float>(kFirstTrust));
    margins_.assign(blocks_.row_count(), 0);
    terms_.assign(blocks_.row_count(), {});
    reach_under_way_.assign(blocks_.row_count(), 0);
    block_order_.resize(plan_.block_count);
    std::iota(block_order_.begin(), block_order_.end(), 0U);
    last_iteration_.assign(plan_.block_count, 0);
    uint64_t widest = 0;
    for (uint32_t block = 0; block < plan_.block_count; ++block)
        widest = std::max(widest, block_range(block).size());
    const uint32_t at_once = std::min(options_.tau + 1, plan_.block_count);
    for (uint32_t i = 0; i < at_once; ++i) {
        UnderWay& block = free_.emplace_back();
        WEIR_ASSIGN(block.pairs, exchange_->make_buffer(2 * widest));
        WEIR_ASSIGN(block.pulled, exchange_->make_buffer(widest));
    }
    WEIR_ASSIGN(owners_, FeatureOwners::find(*exchange_, blocks_.keys(), blocks_.group_begin(),
                                             free_[0].pulled));
    plan_.feature_count = owners_.feature_count();
    end_rule_ = EndRule(options_.tolerance, plan_.pass_cost_ns / exchange_->worker_count());
    result_.example_count = plan_.example_count;
    result_.feature_count = plan_.feature_count;
    result_.block_count = plan_.block_count;
    return {};
}

Result<LrResult> DelayedSolver::solve() {
    WEIR_CHECK(iteration_ == 0);
    start_ns_ = SteadyClock().now_ns();
    const uint64_t waited_before_ns = exchange_->waited_ns();
    {
        const WaitAtExit wait_at_exit(*exchange_);
        WEIR_ASSIGN(result_.end, run());
    }
    result_.seconds = seconds_from(start_ns_);
    result_.waiting_share = static_cast<double>(exchange_->waited_ns() - waited_before_ns) /
                            static_cast<double>(kSecond) / std::max(result_.seconds, 1e-9);
    return result_;
}

Result<Model> DelayedSolver::model(bool wanted) {
    return owners_.gather(*exchange_, weights_, 1, wanted);
}

/// Makes passes until one of the ends in LrEnd is reached.
Result<LrEnd> DelayedSolver::run() {
    if (!options_.init.keys.empty()) WEIR_TRY(take_init());
    WEIR_TRY(run_frequent_blocks());
    while (true) {
        begin_pass();
        WEIR_TRY(run_pass());
        const bool meets = is_to_stop_ || pass_ == meeting_ || pass_ == options_.pass_count_max;
        if (!meets) {
            WEIR_TRY(send_sums());
            continue;
        }
        WEIR_ASSIGN(const std::optional<LrEnd> end, meet());
        if (end) return *end;
    }
}

/// Moves the weights to LrOptions::init in one move. Of the workers that have a feature the first one pushes it.
Status DelayedSolver::take_init() {
    const Model& init = options_.init;
    std::vector<std::pair<uint64_t, double>> mine;
    double known = 0;
    for (uint64_t column = 0; column < blocks_.column_count(); ++column) {
        const uint64_t key = blocks_.keys()[column];
        const auto found = std::lower_bound(init.keys.begin(), init.keys.end(), key);
        if (found == init.keys.end() || *found != key) continue;
        known += owners_.counted_part(column);
        weights_[column] = init.weights[static_cast<size_t>(found - init.keys.begin())];
        if (owners_.is_mine(column)) mine.emplace_back(key, weights_[column]);
    }
    WEIR_TRY(exchange_->sum({&known, 1}));
    result_.init_feature_count = static_cast<uint64_t>(std::llround(known));
    end_rule_.measure_gap_from(2);  // the start may be near the optimum
    std::ranges::sort(mine);
    std::vector<uint64_t> keys;
    std::vector<double> pairs;
    for (const auto& [key, weight] : mine) {
        keys.push_back(key);
        pairs.insert(pairs.end(), {weight, -1});  // a negative curvature marks a move
    }
    exchange_->push(++iteration_, keys, pairs, 0);
    WEIR_TRY(exchange_->wait(iteration_));
    return refresh_margins();
}

Status DelayedSolver::run_frequent_blocks() {
    for (uint32_t block = 0; block < plan_.frequent_block_count; ++block)
        WEIR_TRY(start_block(block, 0));
    return {};
}

void DelayedSolver::begin_pass() {
    ++pass_;
    const bool may_be_last = pass_ == meeting_ || pass_ == options_.pass_count_max;
    if (pass_ > 1) kkt_.begin_next(may_be_last || stays_whole_);
    left_out_count_ = 0;
    woken_count_ = 0;
    for (uint64_t i = block_order_.size(); i > 1; --i)
        std::swap(block_order_[i - 1], block_order_[random_.below(i)]);
}

/// The sums of the pass before are taken where no worker can be before their end any more. All workers take them
/// before the same block, and decide alike.
Status DelayedSolver::run_pass() {
    for (size_t place = 0; place < block_order_.size(); ++place) {
        if (place == size_t{options_.tau} + 1) WEIR_TRY(take_sums());
        if (is_to_stop_) return {};
        will_need(place + 1);
        WEIR_TRY(start_block(block_order_[place], options_.tau));
    }
    return take_sums();
}

/// The block at this place of the pass is read ahead, unless the pass leaves out all of it.
void DelayedSolver::will_need(size_t place) {
    if (place >= block_order_.size()) return;
    const linalg::ColumnRange range = block_range(block_order_[place]);
    const auto weights = std::span(weights_).subspan(range.begin, range.size());
    if (kkt_.is_whole() ||
        std::ranges::any_of(weights, [](double weight) { return !is_at_rest(weight); }))
        blocks_.will_need(block_order_[place]);
}

/// For the block that begins, which is the last one under way. If those before it leave no memory for it, it waits
/// for the first of them.
Result<linalg::Columns> DelayedSolver::open(uint32_t block) {
    while (true) {
        Result<linalg::Columns> columns = blocks_.open(block);
        if (columns.code() != Errc::kNoMemory || under_way_.size() <= 1) return columns;
        WEIR_TRY(take_up_to(under_way_.front().iteration));
    }
}

Status DelayedSolver::start_block(uint32_t block, uint32_t tau) {
    // Its own last step must be known: the filter and the trust go by it.
    const uint64_t needed = iteration_ >= tau ? iteration_ - tau : 0;
    WEIR_TRY(take_up_to(std::max(needed, last_iteration_[block])));
    const linalg::ColumnRange range = block_range(block);
    UnderWay& started = under_way_.emplace_back(std::move(free_.back()));
    free_.pop_back();
    started.iteration = ++iteration_;
    started.block = block;
    last_iteration_[block] = iteration_;
    started.list = {0, range.size()};
    started.kept = KktFilter(started.list, blocks_.keys().subspan(range.begin, range.size()));
    if (!kkt_.is_whole()) {
        started.kept.leave_out_resting(std::span(weights_).subspan(range.begin, range.size()));
        started.kept.for_each_left_out([&](uint64_t feature) {
            left_out_count_ += owners_.counted_part(range.begin + feature);
        });
    }
    const std::span<const uint64_t> keys = started.kept.keys(0);
    if (!keys.empty()) {
        WEIR_ASSIGN(started.columns, open(block));
        bound_curvature(started);
    }
    started.trust.clear();
    uint64_t at = 0;
    for (const FeatureRange& kept : started.kept.ranges(0)) {
        const linalg::ColumnRange some{kept.begin, kept.end};
        const std::span<const float> trust =
            std::span(trust_).subspan(range.begin + some.begin, some.size());
        linalg::gradient_and_curvature(*started.columns, some, trust, terms_,
                                       started.pairs.subspan(2 * at, 2 * some.size()));
        if (tau > 0) {
            linalg::add_reach(*started.columns, some, trust, 1, reach_under_way_);
            started.trust.insert(started.trust.end(), trust.begin(), trust.end());
        }
        at += some.size();
    }
    if (options_.computed) options_.computed();
    exchange_->push(iteration_, keys, started.pairs.first(2 * keys.size()), kkt_.rest());
    exchange_->pull(iteration_, keys, started.pulled.first(keys.size()));
    return {};
}

/// The slope of each row, and how much it may bend within the reach of the block and of those under way.
void DelayedSolver::bound_curvature(const UnderWay& block) {
    for (uint64_t row = 0; row < terms_.size(); ++row)
        terms_[row].reach_or_bend = share_of_late_ * reach_under_way_[row];
    const uint64_t begin = block_range(block.block).begin;
    for (const FeatureRange& kept : block.kept.ranges(0)) {
        const linalg::ColumnRange some{kept.begin, kept.end};
        linalg::add_reach(*block.columns, some,
                          std::span(trust_).subspan(begin + some.begin, some.size()), terms_);
    }
    linalg::logistic_terms(blocks_.labels(), margins_, terms_);
}

/// Takes over the new weights of iterations up to this one, and of those that have arrived.
Status DelayedSolver::take_up_to(uint64_t iteration) {
    const uint64_t arrived = std::max(iteration, exchange_->arrived());
    WEIR_TRY(exchange_->wait(arrived));
    while (!under_way_.empty() && under_way_.front().iteration <= arrived) {
        take(under_way_.front());
        free_.push_back(std::move(under_way_.front()));
        under_way_.pop_front();
    }
    if (under_way_.empty() &&
        options_.tau > 0)  // without the rounding of what was added and taken off
        std::fill(reach_under_way_.begin(), reach_under_way_.end(), 0.0);
    return {};
}

void DelayedSolver::take(UnderWay& block) {
    const uint64_t begin = block_range(block.block).begin;
    uint64_t at = 0;
    for (const FeatureRange& kept : block.kept.ranges(0)) {
        const linalg::ColumnRange some{kept.begin, kept.end};
        if (!block.trust.empty())
            linalg::add_reach(*block.columns, some, std::span(block.trust).subspan(at, some.size()),
                              -1, reach_under_way_);
        for (uint64_t i = some.begin; i < some.end; ++i, ++at) {
            const uint64_t column = begin + i;
            const double weight = block.pulled[at];
            const double step = weight - weights_[column];
            if (is_at_rest(weights_[column]) && weight != 0)
                woken_count_ += owners_.counted_part(column);
            weights_[column] = weight;
            trust_[column] = trust_bound_after(trust_[column], step);
            if (step != 0) linalg::add_to_margins(*block.columns, {i, i + 1}, {&step, 1}, margins_);
        }
    }
    if (std::exchange(block.columns, std::nullopt)) blocks_.done(block.block);
}

/// Errors: those of LrOptions::stop
Result<DelayedSolver::Sums> DelayedSolver::sums_here(bool asks_to_stop) {
    Sums sums{};
    sums[kObjective] = linalg::logistic_loss_sum(blocks_.labels(), margins_);
    for (uint64_t column = 0; column < weights_.size(); ++column) {
        if (weights_[column] == 0) continue;
        const double part = owners_.counted_part(column);
        sums[kObjective] += options_.l1 * std::abs(weights_[column]) * part;
        sums[kNonzeros] += part;
    }
    sums[kLeftOut] = left_out_count_;
    sums[kWoken] = woken_count_;
    if (asks_to_stop && options_.stop) {
        WEIR_ASSIGN(const int reason, options_.stop());
        sums[kStops] = reason != 0 ? 1 : 0;
    }
    return sums;
}

/// Of the weights that this worker knows.
Status DelayedSolver::send_sums() {
    WEIR_ASSIGN(sent_, sums_here(true));
    ended_ = Ended{seconds_from(start_ns_), kkt_.is_judging()};
    exchange_->start_sum(sent_, received_);
    return {};
}

Status DelayedSolver::take_sums() {
    if (!ended_) return {};
    WEIR_TRY(exchange_->finish_sum());
    take_progress(received_, *std::exchange(ended_, std::nullopt));
    is_to_stop_ = received_[kStops] > 0;
    return {};
}

void DelayedSolver::take_progress(const Sums& sums, const Ended& ended) {
    const bool has_risen =
        !result_.history.empty() && sums[kObjective] > result_.history.back().objective;
    if (has_risen) share_of_late_ = std::min(2 * share_of_late_, kShareOfLateMax);
    ++result_.pass_count;
    result_.objective = sums[kObjective];
    result_.nonzero_count = static_cast<uint64_t>(std::llround(sums[kNonzeros]));
    result_.gap = end_rule_.gap(result_.objective);
    stays_whole_ = end_rule_.progress_has_ended(result_);
    const bool is_due = result_.pass_count > 1 && end_rule_.gap_is_due(result_);
    if ((stays_whole_ || is_due) && meeting_ < pass_) meeting_ = pass_ + 1;
    const double filtered =
        sums[kLeftOut] / static_cast<double>(std::max<uint64_t>(1, plan_.feature_count));
    result_.history.push_back({result_.pass_count, ended.seconds, sums[kObjective],
                               result_.nonzero_count, result_.gap, filtered});
    if (ended.is_judging)
        kkt_.judge(static_cast<uint64_t>(std::llround(sums[kWoken])), result_.nonzero_count);
    if (options_.progress) options_.progress(result_.history.back());
}

/// All take over all weights, and look whether the pass was the last one.
Result<std::optional<LrEnd>> DelayedSolver::meet() {
    is_to_stop_ = false;
    WEIR_TRY(take_up_to(iteration_));
    WEIR_TRY(refresh_margins());
    WEIR_ASSIGN(Sums sums, sums_here(false));
    WEIR_TRY(exchange_->sum(sums));
    result_.objective = sums[kObjective];
    WEIR_TRY(measure_gap());
    take_progress(sums, {seconds_from(start_ns_), kkt_.is_judging()});
    const bool is_proven = options_.tolerance > 0 && result_.gap <= options_.tolerance;
    const bool is_stuck = stays_whole_ && kkt_.may_settle();
    const bool is_last = pass_ == options_.pass_count_max;
    WEIR_ASSIGN(const int stop, options_.stop ? options_.stop() : 0);
    // Machines may differ in the last bit of the gap, and all workers must decide the same.
    std::array<double, 2> decision = {is_proven  ? 3.0
                                      : is_stuck ? 2.0
                                      : is_last  ? 1.0
                                                 : 0.0,
                                      static_cast<double>(stop)};
    WEIR_TRY(exchange_->max(decision));
    if (decision[0] == 3) return std::optional(LrEnd::kGap);
    if (decision[0] == 2) return std::optional(LrEnd::kNoProgress);
    if (decision[0] == 1) return std::optional(LrEnd::kPassCount);
    result_.stop_reason = static_cast<int>(decision[1]);
    if (decision[1] != 0) return std::optional(LrEnd::kStopped);
    return std::optional<LrEnd>();
}

Status DelayedSolver::measure_gap() {
    double bound = 0;
    if (options_.l1 > 0) {
        std::vector<double> slopes(blocks_.row_count());
        linalg::logistic_slopes(blocks_.labels(), margins_, slopes);
        double steepest = 0;
        for (uint32_t block = 0; block < plan_.block_count; ++block) {
            if (block + 1 < plan_.block_count) blocks_.will_need(block + 1);
            const uint64_t count = block_range(block).size();
            const std::span<double> gradient = free_[0].pairs.first(count);
            WEIR_ASSIGN(const linalg::Columns columns, blocks_.open(block));
            linalg::gradient(columns, {0, count}, slopes, gradient);
            blocks_.done(block);
            WEIR_TRY(owners_.sum_by_feature(*exchange_, block, gradient, free_[0].pulled));
            for (const double slope : gradient)
                steepest = std::max(steepest, std::abs(slope));
        }
        WEIR_ASSIGN(bound, dual_bound(*exchange_, blocks_.labels(), margins_, options_.l1, steepest,
                                      result_.objective));
    }
    end_rule_.take_bound(result_, bound);
    return {};
}

/// Computes the margins from the weights, without the rounding of the updates so far.
Status DelayedSolver::refresh_margins() {
    std::fill(margins_.begin(), margins_.end(), 0.0);
    for (uint32_t block = 0; block < plan_.block_count; ++block) {
        if (block + 1 < plan_.block_count) blocks_.will_need(block + 1);
        const linalg::ColumnRange range = block_range(block);
        WEIR_ASSIGN(const linalg::Columns columns, blocks_.open(block));
        linalg::add_to_margins(columns, {0, range.size()},
                               std::span(weights_).subspan(range.begin, range.size()), margins_);
        blocks_.done(block);
    }
    return {};
}

}  // namespace weir::apps

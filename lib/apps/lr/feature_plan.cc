// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/lr/feature_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lib/apps/allgather.h"
#include "lib/base/random.h"

namespace weir::apps {

namespace {

/// Up to this many features (added up over the workers) every worker gets the list of all
/// features, and the blocks have equal sizes, down to one feature each. With more features, a
/// hash of the feature chooses the block, and the sizes are about equal.
constexpr double kListedFeatureCountMax = 32768;
/// For smaller pieces the messages cost more than the overlap with computing gains.
constexpr uint64_t kPieceFeatureCountMin = 4096;
constexpr uint64_t kPieceCountMax = 8;

/// Rough costs of a pass, measured on one core. If they are wrong by a factor of four, the chosen
/// block count makes a training at most a quarter slower than the best one.
constexpr double kRowNs = 6;       ///< per example and block: slope and bend of the loss
constexpr double kEntryNs = 4;     ///< per non-zero
constexpr double kFeatureNs = 30;  ///< per feature: push, step on the server, pull
/// Of one worker. With more workers a round trip takes longer, because all wait for the slowest
/// and there may be more workers than cores.
constexpr double kRoundTripNs = 7e3;
/// Per pass, outside the blocks: sums for the objective and for the step after it.
constexpr double kBetweenPassesNs = 2e6;

double round_trip_ns(uint32_t worker_count) {
    return kRoundTripNs * (1 + std::log2(static_cast<double>(worker_count)));
}

/// The greatest number of blocks whose round trips take no longer than the other work of a pass.
double affordable_blocks(const FeaturePlan& plan, double features_per_worker,
                         uint32_t worker_count) {
    const double rows_ns = kRowNs * static_cast<double>(plan.example_count) / worker_count;
    const double wait_ns = round_trip_ns(worker_count) - rows_ns;
    if (wait_ns <= 0) return std::numeric_limits<double>::infinity();
    const double work_ns = kEntryNs * static_cast<double>(plan.nonzero_count) / worker_count +
                           kFeatureNs * features_per_worker + kBetweenPassesNs;
    return work_ns / wait_ns;
}

/// Assigns the features to the groups at random; group sizes differ by at most one.
data::FeatureGroups deal(std::vector<uint64_t> keys, uint32_t group_count, uint64_t seed) {
    std::vector<uint32_t> group(keys.size());
    for (uint64_t i = 0; i < group.size(); ++i)
        group[i] = static_cast<uint32_t>(i % group_count);
    Random random(seed);
    for (uint64_t i = group.size(); i > 1; --i)
        std::swap(group[i - 1], group[random.below(i)]);
    const auto shared_keys = std::make_shared<const std::vector<uint64_t>>(std::move(keys));
    const auto shared_group = std::make_shared<const std::vector<uint32_t>>(std::move(group));
    return {group_count, [shared_keys, shared_group](uint64_t key) {
                const auto at = std::lower_bound(shared_keys->begin(), shared_keys->end(), key);
                return (*shared_group)[static_cast<uint64_t>(at - shared_keys->begin())];
            }};
}

data::FeatureGroups hash_groups(uint32_t group_count, uint64_t seed) {
    return {group_count, [group_count, salt = mix64(seed + 1)](uint64_t key) {
                const uint64_t hash = mix64((key ^ salt) * 0x9e3779b97f4a7c15ULL);
                return static_cast<uint32_t>((static_cast<uint128>(hash) * group_count) >> 64);
            }};
}

/// `bad_line_count`: of all workers; `mine`: this worker's report.
Error no_examples(double bad_line_count, const data::ReadReport& mine) {
    std::string text = "no examples in the training files: they have only comments and empty lines";
    if (bad_line_count > 0) {
        text = fmt::format(
            "no examples in the training files: {} bad lines were left out, and no good line is "
            "left; is this LIBSVM text?",
            bad_line_count);
        if (!mine.first_bad_line.empty()) text += " The first: " + mine.first_bad_line;
    }
    return {Errc::kInvalidArgument, std::move(text)};
}

}  // namespace

Result<FeaturePlan> plan_features(BlockExchange& exchange, const data::Examples& examples,
                                  uint32_t block_count, uint64_t seed) {
    std::array<double, 4> totals = {static_cast<double>(examples.report.example_count),
                                    static_cast<double>(examples.report.nonzero_count),
                                    static_cast<double>(examples.keys.size()),
                                    static_cast<double>(examples.report.bad_line_count)};
    WEIR_TRY(exchange.sum(totals));
    FeaturePlan plan;
    plan.example_count = static_cast<uint64_t>(totals[0]);
    plan.nonzero_count = static_cast<uint64_t>(totals[1]);
    plan.feature_count = static_cast<uint64_t>(totals[2]);
    if (plan.example_count == 0) return no_examples(totals[3], examples.report);
    std::vector<uint64_t> keys;
    const bool listed = totals[2] <= kListedFeatureCountMax;
    if (listed) {
        WEIR_ASSIGN(keys, allgather(exchange, examples.keys));
        std::sort(keys.begin(), keys.end());
        keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
        plan.feature_count = keys.size();
    }
    const uint32_t worker_count = exchange.worker_count();
    const double wanted = std::min(totals[1] / totals[0],
                                   affordable_blocks(plan, totals[2] / worker_count, worker_count));
    const uint64_t chosen =
        block_count != 0 ? block_count : static_cast<uint64_t>(std::llround(wanted));
    plan.block_count = static_cast<uint32_t>(
        std::clamp<uint64_t>(chosen, 1, std::max<uint64_t>(1, plan.feature_count)));
    plan.pieces_per_block = static_cast<uint32_t>(std::clamp<uint64_t>(
        plan.feature_count / plan.block_count / kPieceFeatureCountMin, 1, kPieceCountMax));
    plan.pass_cost_ns = kRowNs * static_cast<double>(plan.example_count) * plan.block_count +
                        kEntryNs * static_cast<double>(plan.nonzero_count) +
                        kFeatureNs * totals[2] +
                        worker_count * round_trip_ns(worker_count) * plan.block_count;
    const uint32_t group_count = plan.block_count * plan.pieces_per_block;
    plan.groups =
        listed ? deal(std::move(keys), group_count, seed) : hash_groups(group_count, seed);
    return plan;
}

}  // namespace weir::apps

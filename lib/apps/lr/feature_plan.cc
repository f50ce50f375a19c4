// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/lr/feature_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <unordered_map>
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
double affordable_blocks(const FeaturePlan& plan, double features_per_worker, uint32_t worker_count,
                         double trip_ns) {
    const double rows_ns = kRowNs * static_cast<double>(plan.example_count) / worker_count;
    const double wait_ns = trip_ns - rows_ns;
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

/// Features that at least this share of the examples have are frequent.
constexpr double kFrequentShare = 0.1;
/// Not more than one block in so many has frequent features alone.
constexpr uint32_t kBlocksPerFrequent = 8;

/// Features in blocks of their own, the most frequent ones first.
struct Frequent {
    uint32_t block_count = 0;
    std::unordered_map<uint64_t, uint32_t> group_of;  ///< by key
};

/// An example has about one feature in each block of frequent ones, as in others. A feature that is frequent among all
/// examples is so among those of a worker at least.
Result<Frequent> find_frequent(BlockExchange& exchange, std::span<const uint64_t> keys,
                               std::span<const uint32_t> counts, const data::ReadReport& report,
                               const FeaturePlan& plan) {
    std::vector<uint64_t> candidates;
    for (size_t i = 0; i < keys.size(); ++i) {
        if (counts[i] < kFrequentShare * static_cast<double>(report.example_count)) continue;
        candidates.push_back(keys[i]);
    }
    WEIR_ASSIGN(candidates, allgather(exchange, candidates));
    std::sort(candidates.begin(), candidates.end());
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
    candidates.resize(std::min<size_t>(candidates.size(), kReduceValueCountMax));
    std::vector<double> totals(
        candidates.size());  // whole numbers: any order of adding gives the same
    for (size_t i = 0; i < keys.size(); ++i) {
        const auto at = std::lower_bound(candidates.begin(), candidates.end(), keys[i]);
        if (at == candidates.end() || *at != keys[i]) continue;
        totals[static_cast<size_t>(at - candidates.begin())] = counts[i];
    }
    WEIR_TRY(exchange.sum(totals));
    std::vector<size_t> order(candidates.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return totals[a] > totals[b]; });
    Frequent frequent;
    const auto full = static_cast<double>(plan.example_count);
    double in_block = full;  // of the block under way
    for (const size_t i : order) {
        if (totals[i] < kFrequentShare * full) break;
        if (in_block + totals[i] > full) {
            if (frequent.block_count >= plan.block_count / kBlocksPerFrequent) break;
            ++frequent.block_count;
            in_block = 0;
        }
        in_block += totals[i];
        frequent.group_of.emplace(candidates[i], frequent.block_count - 1);
    }
    return frequent;
}

/// The groups of the frequent features come before the others.
void put_before(Frequent frequent, data::FeatureGroups& groups) {
    const uint32_t first = frequent.block_count;
    groups.count += first;
    groups.of = [first, others = std::move(groups.of),
                 own = std::make_shared<const std::unordered_map<uint64_t, uint32_t>>(
                     std::move(frequent.group_of))](uint64_t key) {
        const auto found = own->find(key);
        return found == own->end() ? first + others(key) : found->second;
    };
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

std::vector<uint32_t> count_features(const data::Examples& examples) {
    std::vector<uint32_t> counts(examples.keys.size());
    for (const data::RowChunk& chunk : examples.chunks) {
        for (const uint32_t feature : chunk.features)
            ++counts[feature];
    }
    return counts;
}

Result<uint64_t> count_examples(BlockExchange& exchange, const data::ReadReport& mine) {
    std::array<double, 2> totals = {static_cast<double>(mine.example_count),
                                    static_cast<double>(mine.bad_line_count)};
    WEIR_TRY(exchange.sum(totals));
    if (totals[0] == 0) return no_examples(totals[1], mine);
    return static_cast<uint64_t>(totals[0]);
}

Result<FeaturePlan> plan_features(BlockExchange& exchange, std::span<const uint64_t> keys_here,
                                  std::span<const uint32_t> counts, const data::ReadReport& report,
                                  const PlanOptions& options) {
    std::array<double, 4> totals = {
        static_cast<double>(report.example_count), static_cast<double>(report.nonzero_count),
        static_cast<double>(keys_here.size()), static_cast<double>(report.bad_line_count)};
    WEIR_TRY(exchange.sum(totals));
    FeaturePlan plan;
    plan.example_count = static_cast<uint64_t>(totals[0]);
    plan.nonzero_count = static_cast<uint64_t>(totals[1]);
    plan.feature_count = static_cast<uint64_t>(totals[2]);
    if (plan.example_count == 0) return no_examples(totals[3], report);
    std::vector<uint64_t> keys;
    const bool listed = totals[2] <= kListedFeatureCountMax;
    if (listed) {
        WEIR_ASSIGN(keys, allgather(exchange, keys_here));
        std::sort(keys.begin(), keys.end());
        keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
        plan.feature_count = keys.size();
    }
    const uint32_t worker_count = exchange.worker_count();
    const double trip_ns = round_trip_ns(worker_count) / std::max(1U, options.blocks_at_once);
    const double wanted =
        std::min(totals[1] / totals[0],
                 affordable_blocks(plan, totals[2] / worker_count, worker_count, trip_ns));
    double least = options.block_count_min;
    if (options.blocks_at_once > 0) WEIR_TRY(exchange.max({&least, 1}));
    const uint64_t chosen = options.block_count != 0
                                ? options.block_count
                                : static_cast<uint64_t>(std::llround(std::max(wanted, least)));
    plan.block_count = static_cast<uint32_t>(
        std::clamp<uint64_t>(chosen, 1, std::max<uint64_t>(1, plan.feature_count)));
    const bool is_at_once = options.blocks_at_once > 0;
    plan.pieces_per_block = is_at_once
                                ? 1
                                : static_cast<uint32_t>(std::clamp<uint64_t>(
                                      plan.feature_count / plan.block_count / kPieceFeatureCountMin,
                                      1, kPieceCountMax));
    plan.pass_cost_ns = kRowNs * static_cast<double>(plan.example_count) * plan.block_count +
                        kEntryNs * static_cast<double>(plan.nonzero_count) +
                        kFeatureNs * totals[2] + worker_count * trip_ns * plan.block_count;
    Frequent frequent;
    if (is_at_once) {
        WEIR_ASSIGN(frequent, find_frequent(exchange, keys_here, counts, report, plan));
    }
    plan.frequent_block_count = frequent.block_count;
    std::erase_if(keys, [&](uint64_t key) { return frequent.group_of.contains(key); });
    const uint32_t rest_count = std::max(1U, plan.block_count - frequent.block_count);
    plan.block_count = frequent.block_count + rest_count;
    const uint32_t group_count = rest_count * plan.pieces_per_block;
    plan.groups = listed ? deal(std::move(keys), group_count, options.seed)
                         : hash_groups(group_count, options.seed);
    if (frequent.block_count > 0) put_before(std::move(frequent), plan.groups);
    return plan;
}

}  // namespace weir::apps

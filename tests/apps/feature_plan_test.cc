// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/lr/feature_plan.h"

#include <algorithm>
#include <map>
#include <mutex>

#include <doctest/doctest.h>

#include "lib/apps/allgather.h"
#include "lib/base/random.h"
#include "tests/apps/memory_exchange.h"

namespace {

using namespace weir;
using namespace weir::apps;

/// Worker `index` has every feature below `count` whose number is not a multiple of index + 2.
data::Examples features_of(uint32_t index, uint64_t count) {
    data::Examples examples;
    for (uint64_t i = 0; i < count; ++i) {
        if (i % (index + 2) != 0) examples.keys.push_back(mix64(i));
    }
    examples.report.example_count = 100;
    examples.report.nonzero_count = 100 * 20;
    return examples;
}

Result<FeaturePlan> plan_of(BlockExchange& exchange, const data::Examples& examples,
                            const PlanOptions& options) {
    return plan_features(exchange, examples.keys, count_features(examples), examples.report,
                         options);
}

}  // namespace

TEST_SUITE("feature_plan") {
    TEST_CASE(
        "all workers put a feature into the same group, and few features are dealt out evenly") {
        for (const uint64_t count : {500UL, 60000UL}) {
            std::mutex mutex;
            std::map<uint64_t, uint32_t> group_of;
            test::run_workers(3, 1, [&](BlockExchange& exchange) {
                const data::Examples examples = features_of(exchange.worker_index(), count);
                const auto plan = plan_of(exchange, examples, {.block_count = 0, .seed = 7});
                REQUIRE(plan);
                const std::lock_guard lock(mutex);
                CHECK(plan->block_count == 20);
                CHECK(plan->example_count == 300);
                for (const uint64_t key : examples.keys) {
                    const uint32_t group = plan->groups.of(key);
                    CHECK(group < plan->groups.count);
                    CHECK(group_of.try_emplace(key, group).first->second == group);
                }
            });
            std::map<uint32_t, uint64_t> sizes;
            for (const auto& [key, group] : group_of)
                ++sizes[group];
            const auto [least, most] = std::minmax_element(
                sizes.begin(), sizes.end(),
                [](const auto& a, const auto& b) { return a.second < b.second; });
            CHECK(most->second - least->second <= (count == 500 ? 1 : least->second / 2));
        }
    }

    TEST_CASE("dense data gets one feature per block, and one block is possible") {
        test::run_workers(1, 1, [&](BlockExchange& exchange) {
            data::Examples examples = features_of(0, 31);
            examples.report.nonzero_count = 100 * examples.keys.size();
            const auto fine = plan_of(exchange, examples, {.block_count = 0, .seed = 1});
            REQUIRE(fine);
            CHECK(fine->block_count == examples.keys.size());
            std::vector<uint32_t> groups;
            for (const uint64_t key : examples.keys)
                groups.push_back(fine->groups.of(key));
            std::sort(groups.begin(), groups.end());
            CHECK(std::adjacent_find(groups.begin(), groups.end()) == groups.end());
            CHECK(plan_of(exchange, examples, {.block_count = 1, .seed = 1})->block_count == 1);
        });
    }

    TEST_CASE("wide dense data get no more blocks than their round trips are worth") {
        uint32_t fewest = ~0U;
        for (const uint32_t workers : {1U, 2U, 4U}) {
            uint32_t block_count = 0;
            test::run_workers(workers, 1, [&](BlockExchange& exchange) {
                data::Examples examples;
                for (uint64_t i = 0; i < 300'000; ++i)
                    examples.keys.push_back(i);
                examples.report.example_count = 4 / workers;
                examples.report.nonzero_count = 4 / workers * examples.keys.size();
                const auto plan = plan_of(exchange, examples, {.block_count = 0, .seed = 1});
                REQUIRE(plan);
                if (exchange.worker_index() == 0) block_count = plan->block_count;
            });
            CAPTURE(workers);
            CHECK(block_count > 100);  // one block converges in the most passes
            CHECK(block_count < 3000);
            CHECK(block_count < fewest);  // the more workers, the longer a round trip
            fewest = block_count;
        }
    }

    TEST_CASE("without examples the bad lines of all workers are told, or that there are none") {
        test::run_workers(2, 1, [](BlockExchange& exchange) {
            data::Examples none;
            const auto empty = plan_of(exchange, none, {.block_count = 0, .seed = 1});
            REQUIRE_FALSE(empty);
            CHECK(empty.error().message().find("comments and empty lines") != std::string::npos);
            none.report.bad_line_count = 20;
            none.report.first_bad_line = "some:7:1: bad";
            const auto bad = plan_of(exchange, none, {.block_count = 0, .seed = 1});
            REQUIRE_FALSE(bad);
            CHECK(bad.error().message().find("40 bad lines were left out") != std::string::npos);
            CHECK(bad.error().message().find("some:7:1: bad") != std::string::npos);
        });
    }

    TEST_CASE(
        "allgather brings lists longer than a sum to everybody, in the order of the workers") {
        test::run_workers(3, 1, [](BlockExchange& exchange) {
            std::vector<uint64_t> mine(exchange.worker_index() * 40000);
            for (size_t i = 0; i < mine.size(); ++i)
                mine[i] = ~mix64(i + exchange.worker_index());
            const auto all = allgather(exchange, mine);
            REQUIRE(all);
            REQUIRE(all->size() == 120000);
            CHECK((*all)[0] == ~mix64(1));
            CHECK((*all)[39999] == ~mix64(40000));
            CHECK((*all)[40000] == ~mix64(2));
            CHECK((*all)[119999] == ~mix64(80001));
        });
    }

    TEST_CASE("where blocks are under way at once, features that many examples have come first") {
        constexpr uint32_t kWorkers = 3;
        std::mutex mutex;
        std::map<uint64_t, uint32_t> group_of;
        test::run_workers(kWorkers, 1, [&](BlockExchange& exchange) {
            data::Examples examples = features_of(exchange.worker_index(), 2000);
            std::vector<uint32_t> counts(examples.keys.size(), 3);
            for (const uint64_t often : {6U, 12U}) {  // no multiple of 5: all workers but the last
                const auto at = std::ranges::find(examples.keys, mix64(often + 1));
                if (at != examples.keys.end())
                    counts[static_cast<size_t>(at - examples.keys.begin())] = 70;
            }
            const auto plan = plan_features(exchange, examples.keys, counts, examples.report,
                                            {.block_count = 40, .seed = 7, .blocks_at_once = 5});
            REQUIRE(plan);
            const std::lock_guard lock(mutex);
            CHECK(plan->frequent_block_count == 2);
            CHECK(plan->block_count == 40);
            CHECK(plan->pieces_per_block == 1);
            for (const uint64_t key : examples.keys) {
                const uint32_t group = plan->groups.of(key);
                CHECK(group < plan->groups.count);
                CHECK(group_of.try_emplace(key, group).first->second == group);
                const bool is_frequent = key == mix64(7) || key == mix64(13);
                CHECK((group < plan->frequent_block_count) == is_frequent);
            }
        });
    }

    TEST_CASE("blocks do not depend on the order in which workers speak") {
        constexpr uint32_t kWorkers = 5;
        std::map<uint64_t, uint32_t> group_of;
        std::mutex mutex;
        for (int time = 0; time < 20; ++time) {
            test::run_workers(kWorkers, 1, [&](BlockExchange& exchange) {
                data::Examples examples;
                std::vector<uint32_t> counts;
                for (uint64_t key = 0; key < 60; ++key) {  // in sum, all features are as frequent
                    examples.keys.push_back(key);
                    const uint64_t late = (key + exchange.worker_index()) % kWorkers;
                    counts.push_back(static_cast<uint32_t>(40 + late));
                }
                examples.report.example_count = 105;
                examples.report.nonzero_count = 105 * 24;
                const auto plan =
                    plan_features(exchange, examples.keys, counts, examples.report,
                                  {.block_count = 80, .seed = 3, .blocks_at_once = 5});
                REQUIRE(plan);
                const std::lock_guard lock(mutex);
                CHECK(plan->frequent_block_count > 1);
                for (const uint64_t key : examples.keys) {
                    const uint32_t group = plan->groups.of(key);
                    CHECK(group_of.try_emplace(key, group).first->second == group);
                }
            });
        }
    }
}

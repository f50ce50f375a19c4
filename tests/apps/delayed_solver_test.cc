// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/lr/delayed_solver.h"

#include <atomic>
#include <map>
#include <vector>

#include <doctest/doctest.h>

#include "tests/apps/lr_samples.h"
#include "tests/apps/memory_exchange.h"
#include "tests/seed.h"

namespace {

using namespace weir;
using namespace weir::apps;
using test::one_hot_sample;
using test::Sample;
using test::text_sample;

struct DelayedRun {
    LrResult result;
    std::map<uint64_t, double> weights;
};

DelayedRun train_delayed(const Sample& sample, uint32_t worker_count, const LrOptions& options,
                         bool is_late) {
    std::vector<LrResult> results(worker_count);
    std::vector<Model> models(worker_count);
    test::run_workers(
        worker_count, options.l1,
        [&](BlockExchange& exchange) {
            const uint32_t index = exchange.worker_index();
            auto solver =
                DelayedSolver::create(exchange, sample.part(index, worker_count), options);
            REQUIRE(solver);
            auto result = solver->solve();
            REQUIRE(result);
            results[index] = *result;
            auto model = solver->model(true);
            REQUIRE(model);
            models[index] = *model;
        },
        is_late);
    for (uint32_t i = 1; i < worker_count; ++i) {
        CHECK(results[i].objective == results[0].objective);
        CHECK(results[i].pass_count == results[0].pass_count);
        CHECK(models[i].weights == models[0].weights);
    }
    DelayedRun run{results[0], {}};
    for (size_t i = 0; i < models[0].keys.size(); ++i)
        run.weights[models[0].keys[i]] = models[0].weights[i];
    return run;
}

/// Whether new weights come at once, or as late as they may.
void check_all_delays(const Sample& sample, double l1) {
    const test::Reference best = test::ReferenceSolver(sample, l1).solve();
    REQUIRE(best.gap < 1e-4);
    for (const uint32_t tau : {0U, 2U, 4U, 8U, 16U}) {
        for (const uint32_t workers : {1U, 3U}) {
            for (const bool is_late : {false, true}) {
                LrOptions options{.kind = BatchKind::kDelayed, .l1 = l1, .tau = tau};
                const DelayedRun run = train_delayed(sample, workers, options, is_late);
                CAPTURE(tau);
                CAPTURE(workers);
                CAPTURE(is_late);
                CAPTURE(run.result.pass_count);
                const double objective = test::objective_of(sample, run.weights, l1);
                CHECK(run.result.objective == doctest::Approx(objective).epsilon(1e-9));
                CHECK(objective <= best.objective * 1.001);
                CHECK(objective * (1 - run.result.gap) <= best.objective * (1 + 1e-9));
                CHECK(run.result.nonzero_count == run.weights.size());
                CHECK(run.result.history.size() == run.result.pass_count);
            }
        }
    }
}

Random drawn(uint64_t offset) {
    const uint64_t seed = weir::testing::seed_or(1);
    MESSAGE("WEIR_SEED=" << seed);
    return Random(seed * 1000 + offset);
}

}  // namespace

TEST_SUITE("delayed_solver") {
    TEST_CASE("a small click log reaches the optimum at any delay") {
        Random random = drawn(21);
        check_all_delays(text_sample(random, 600, 1800, false), 1);
    }

    TEST_CASE("weighted text with more features than examples reaches the optimum at any delay") {
        Random random = drawn(22);
        check_all_delays(text_sample(random, 120, 3000, true), 0.5);
    }

    TEST_CASE("one-hot groups reach the optimum at any delay") {
        Random random = drawn(23);
        check_all_delays(one_hot_sample(random, 1000, 10, 6), 1);
    }

    TEST_CASE("steps are the shorter the more is under way: no pass makes things much worse") {
        Random random = drawn(24);
        const Sample sample = one_hot_sample(random, 1000, 10, 6);
        const DelayedRun run = train_delayed(
            sample, 2,
            {.kind = BatchKind::kDelayed, .pass_count_max = 60, .tolerance = 0, .tau = 16}, true);
        const std::vector<LrProgress>& history = run.result.history;
        CHECK(history[0].objective < std::log(2.0) * 1000);
        for (size_t p = 1; p < history.size(); ++p)
            CHECK(history[p].objective < history[p - 1].objective * 1.05);
        CHECK(run.result.end == LrEnd::kPassCount);
        CHECK(run.result.pass_count == 60);
    }

    TEST_CASE("features at rest are left out, and come back") {
        Random random = drawn(25);
        const Sample sample = text_sample(random, 600, 1800, false);
        double filtered = 0;
        const DelayedRun run =
            train_delayed(sample, 2, {.kind = BatchKind::kDelayed, .l1 = 2, .tau = 4}, false);
        for (const LrProgress& pass : run.result.history)
            filtered = std::max(filtered, pass.filtered_share);
        CHECK(filtered > 0.3);
        const DelayedRun whole = train_delayed(
            sample, 2, {.kind = BatchKind::kDelayed, .l1 = 2, .kkt = false, .tau = 4}, false);
        CHECK(run.result.objective == doctest::Approx(whole.result.objective).epsilon(1e-3));
    }

    TEST_CASE("it goes on from weights") {
        Random random = drawn(26);
        const Sample sample = text_sample(random, 600, 1800, false);
        LrOptions options{.kind = BatchKind::kDelayed, .tau = 4};
        const DelayedRun first = train_delayed(sample, 2, options, false);
        for (const auto& [key, weight] : first.weights) {
            options.init.keys.push_back(key);
            options.init.weights.push_back(weight);
        }
        const DelayedRun again = train_delayed(sample, 3, options, true);
        CHECK(again.result.init_feature_count == first.weights.size());
        CHECK(again.result.history[0].objective <= first.result.objective * 1.0005);
        CHECK(again.result.pass_count < first.result.pass_count);
    }

    TEST_CASE("a worker's wish to stop ends the training for all within a pass") {
        Random random = drawn(27);
        const Sample sample = one_hot_sample(random, 500, 10, 6);
        for (const uint32_t tau : {0U, 3U, 40U}) {
            constexpr uint32_t kWorkers = 3;
            std::vector<LrResult> results(kWorkers);
            test::run_workers(kWorkers, 1, [&](BlockExchange& exchange) {
                const uint32_t index = exchange.worker_index();
                int passes = 0;
                LrOptions options{.kind = BatchKind::kDelayed, .tolerance = 0, .tau = tau};
                options.stop = [&, index]() -> Result<int> {
                    return index == 1 && ++passes >= 5 ? 15 : 0;
                };
                auto solver =
                    DelayedSolver::create(exchange, sample.part(index, kWorkers), options);
                REQUIRE(solver);
                auto result = solver->solve();
                REQUIRE(result);
                results[index] = *result;
            });
            for (const LrResult& result : results) {
                CHECK(result.end == LrEnd::kStopped);
                CHECK(result.stop_reason == 15);
                CHECK(result.pass_count <= 7);
            }
        }
    }

    TEST_CASE("workers without a single example take part") {
        Sample sample;
        for (const int label : {1, -1})
            sample.add(label, {{7, static_cast<float>(label)}, {9, 1.0F}});
        const DelayedRun run =
            train_delayed(sample, 4, {.kind = BatchKind::kDelayed, .l1 = 0.1, .tau = 2}, true);
        CHECK(run.result.example_count == 2);
        CHECK(run.result.feature_count == 2);
    }
}

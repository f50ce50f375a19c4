// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/online/online_run.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/data/scratch.h"
#include "tests/job/small_job.h"

namespace weir::apps {
namespace {

/// Feature 3 decides the label, 1 is noise.
std::string examples(uint64_t seed, uint64_t count) {
    Random random(seed);
    std::string text;
    for (uint64_t i = 0; i < count; ++i) {
        const bool is_positive = random.below(2) == 0;
        text += is_positive ? "+1 " : "-1 ";
        text += "1:" + std::to_string(random.uniform() - 0.5);
        text += is_positive ? " 3:1\n" : " 3:-1\n";
    }
    return text;
}

Config small_pool() {
    return Config(Environment(Environment::Map{{"WEIR_POOL_MIB", "16"}}));
}

/// All workers' outcomes.
std::vector<Result<OnlineRun>> learn(
    uint32_t workers, const OnlineOptions& options,
    const std::function<void(uint32_t, OnlineOptions&)>& change = {}) {
    JobOptions shape;
    shape.workers = workers;
    auto job = Job::start(shape, small_pool());
    REQUIRE(job.has_value());
    std::vector<Result<OnlineRun>> runs;
    for (uint32_t i = 0; i < workers; ++i)
        runs.emplace_back(Error(Errc::kCancelled, "not run"));
    test::each_worker(**job, [&](uint32_t i) {
        auto client = (*job)->make_client(i);
        if (!client) return;
        OnlineOptions own = options;
        if (change) change(i, own);
        OnlineRounds rounds;
        runs[i] = run_online(*client, own, rounds);
        (void)client->leave(runs[i] ? Status() : Status(runs[i].error()));
    });
    (void)(*job)->serve();
    return runs;
}

}  // namespace

TEST_SUITE("online run") {
    TEST_CASE("all workers hear the same of all examples, and the first one has the model") {
        const test::Scratch folder;
        OnlineOptions options;
        options.stream = {folder.file("a", examples(1, 9000)), folder.file("b", examples(2, 3000))};
        for (const uint32_t workers : {1U, 3U}) {
            for (const Result<OnlineRun>& run : learn(workers, options)) {
                REQUIRE(run.has_value());
                CHECK(run->total.examples == 12'000);
                CHECK(run->total.features == 24'000);
                CHECK(run->total.loss < 0.2);
                CHECK(*run->total.accuracy > 0.95);
                CHECK(*run->total.auc > 0.99);
                CHECK(run->is_first == !run->model.keys.empty());
                if (!run->is_first) continue;
                CHECK(run->feature_count == 2);
                CHECK(run->model.keys.back() == 3);
                CHECK(run->model.weights.back() > 1);
            }
        }
    }

    TEST_CASE("workers that were started with different options are told so") {
        const test::Scratch folder;
        OnlineOptions options;
        options.stream = {folder.file("a", examples(1, 100))};
        const std::string other = folder.file("b", examples(1, 100));
        const std::vector<std::pair<std::string, std::function<void(OnlineOptions&)>>> changes = {
            {"the ranks have different options", [](OnlineOptions& own) { own.batch = 5; }},
            {"the ranks have different options", [](OnlineOptions& own) { own.skip_bad = 5; }},
            {"the ranks have different options", [&](OnlineOptions& own) { own.stream = {other}; }},
            {"need the same options of the solver", [](OnlineOptions& own) { own.alpha = 5; }},
        };
        for (const auto& [text, differ] : changes) {
            const auto change = [&, &differ = differ](uint32_t worker, OnlineOptions& own) {
                if (worker == 1) differ(own);
            };
            size_t told = 0;
            for (const Result<OnlineRun>& run : learn(2, options, change)) {
                REQUIRE_FALSE(run.has_value());
                told += run.error().message().find(text) != std::string::npos ? 1 : 0;
            }
            CHECK(told > 0);
        }
    }

    TEST_CASE(
        "a stop at one worker ends the training for all, which all have the same results of") {
        const test::Scratch folder;
        OnlineOptions options;
        options.stream.assign(1000, folder.file("a", examples(1, 9000)));
        const auto change = [](uint32_t worker, OnlineOptions& own) {
            if (worker == 1) own.stop = [] { return Result<int>(15); };
        };
        const std::vector<Result<OnlineRun>> runs = learn(2, options, change);
        for (const Result<OnlineRun>& run : runs) {
            REQUIRE(run.has_value());
            CHECK(run->stop_reason == 15);
            CHECK(run->total.examples < 9'000'000);
            CHECK(run->total.examples == runs[0]->total.examples);
        }
        CHECK_FALSE(runs[0]->model.keys.empty());
    }

    TEST_CASE("the next round goes on behind what was learned, and counts nothing twice") {
        const test::Scratch folder;
        OnlineOptions options;
        options.takes_work = true;
        options.stream.assign(200, folder.file("a", examples(1, 9000)));
        JobOptions shape;
        shape.on_worker_loss = OnWorkerLoss::kReassign;
        auto job = Job::start(shape, small_pool());
        REQUIRE(job.has_value());
        const Status ran = (*job)->run_workers([&](Client& client) -> Status {
            OnlineRounds rounds;
            OnlineOptions disturbed = options;
            disturbed.stop = [] {
                return Result<int>(Error(Errc::kReassigned, "as if one had died"));
            };
            CHECK(run_online(client, disturbed, rounds).code() == Errc::kReassigned);
            WEIR_ASSIGN(const OnlineRun run, run_online(client, options, rounds));
            CHECK(run.total.examples == 1'800'000);
            CHECK(run.restarts.size() == 1);
            return {};
        });
        CHECK_MESSAGE(ran, ran.error().text());
    }

    TEST_CASE("what diverges is an error that says what to do") {
        const test::Scratch folder;
        OnlineOptions options;
        options.loss = Loss::kSquared;
        options.solver = OnlineSolver::kAdam;
        options.alpha = 1e30;
        options.stream = {folder.file("a", examples(1, 9000))};
        const std::vector<Result<OnlineRun>> runs = learn(1, options);
        REQUIRE_FALSE(runs[0].has_value());
        CHECK(runs[0].error().message().find("give a smaller learning rate") != std::string::npos);
    }
}

}  // namespace weir::apps

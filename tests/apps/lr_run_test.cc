// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/lr/lr_run.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include <doctest/doctest.h>

#include "lib/apps/lr/client_exchange.h"
#include "lib/base/random.h"
#include "tests/data/scratch.h"
#include "tests/job/small_job.h"

namespace weir::apps {
namespace {

/// Feature 3 decides the label, 1 is noise.
std::string lines(uint64_t seed, uint64_t count) {
    Random random(seed);
    std::string text;
    for (uint64_t i = 0; i < count; ++i) {
        const bool positive = random.below(2) == 0;
        text += positive ? "+1 " : "-1 ";
        text += "1:" + std::to_string(random.uniform() - 0.5);
        text += positive ? " 3:1\n" : " 3:-1\n";
    }
    return text;
}

/// A few of many words in each line, most of them rare; every seventh word tells.
std::string words(uint64_t seed, uint64_t count) {
    Random random(seed);
    std::string text;
    for (uint64_t i = 0; i < count; ++i) {
        std::set<uint64_t> line;
        while (line.size() < 20)
            line.insert(static_cast<uint64_t>(std::pow(20'000, random.uniform())));
        double margin = random.uniform() - 0.5;
        for (const uint64_t word : line)
            margin += word % 7 == 0 ? (word % 2 == 0 ? 0.7 : -0.7) : 0;
        text += margin > 0 ? "+1" : "-1";
        for (const uint64_t word : line)
            text += ' ' + std::to_string(word) + ":1";
        text += '\n';
    }
    return text;
}

/// All workers' outcomes.
std::vector<Result<LrRun>> train(uint32_t workers, const LrRunOptions& options,
                                 const std::function<void(uint32_t, LrRunOptions&)>& change = {}) {
    JobOptions shape;
    shape.workers = workers;
    shape.add_rules = add_exchange_rules;
    auto job = Job::start(shape, Config(Environment(Environment::Map{{"WEIR_POOL_MIB", "16"}})));
    REQUIRE(job.has_value());
    std::vector<Result<LrRun>> runs;
    for (uint32_t i = 0; i < workers; ++i)
        runs.emplace_back(Error(Errc::kCancelled, "not run"));
    test::each_worker(**job, [&](uint32_t i) {
        auto client = (*job)->make_client(i);
        if (!client) return;
        LrRunOptions own = options;
        if (change) change(i, own);
        LrRounds rounds;
        runs[i] = run_lr(*client, own, rounds);
        (void)client->leave(runs[i] ? Status() : Status(runs[i].error()));
    });
    (void)(*job)->serve();
    return runs;
}

/// What the only worker of a job that deals its work out in rounds returns.
Status in_job_of_rounds(const std::function<Status(Client&)>& work) {
    JobOptions shape;
    shape.on_worker_loss = OnWorkerLoss::kReassign;
    shape.add_rules = add_exchange_rules;
    auto job = Job::start(shape, Config(Environment(Environment::Map{{"WEIR_POOL_MIB", "16"}})));
    REQUIRE(job.has_value());
    return (*job)->run_workers(work);
}

}  // namespace

TEST_SUITE("lr run") {
    TEST_CASE("every worker ends with the same model, objective and accuracy, however many") {
        const test::Scratch folder;
        LrRunOptions options;
        options.train = {folder.file("a", lines(1, 90)), folder.file("b", lines(2, 30))};
        options.test = {folder.file("t", lines(3, 40))};
        std::vector<Result<LrRun>> alone = train(1, options);
        REQUIRE(alone[0].has_value());
        CHECK(alone[0]->result.example_count == 120);
        REQUIRE(alone[0]->test.has_value());
        CHECK(alone[0]->test->example_count == 40);
        CHECK(alone[0]->test->accuracy == 1);
        CHECK(alone[0]->test->auc == 1);
        CHECK(alone[0]->traffic.worker_bytes > 0);
        for (const Result<LrRun>& run : train(3, options)) {
            REQUIRE(run.has_value());
            CHECK(run->result.objective ==
                  doctest::Approx(alone[0]->result.objective).epsilon(1e-4));
            CHECK(run->result.example_count == 120);
            REQUIRE(run->test.has_value());
            CHECK(run->test->example_count == 40);
            CHECK(run->test->accuracy == 1);
            CHECK(run->test->log_loss == doctest::Approx(alone[0]->test->log_loss).epsilon(1e-3));
            CHECK(run->train.auc == doctest::Approx(*alone[0]->train.auc));
        }
    }

    TEST_CASE("workers that were started with different options are told which") {
        const test::Scratch folder;
        LrRunOptions options;
        options.train = {folder.file("a", lines(1, 50))};
        const std::string test_file = folder.file("t", lines(3, 40));
        const std::vector<std::pair<std::string, std::function<void(LrRunOptions&)>>> changes = {
            {"blocks: from 0 to 5", [](LrRunOptions& own) { own.solver.block_count = 5; }},
            {"passes: from 7 to 2000", [](LrRunOptions& own) { own.solver.pass_count_max = 7; }},
            {"tolerance: from", [](LrRunOptions& own) { own.solver.tolerance = 0.1; }},
            {"kkt: from 0 to 1", [](LrRunOptions& own) { own.solver.kkt = false; }},
            {"seed: from 1 to 3", [](LrRunOptions& own) { own.solver.seed = 3; }},
            {"number of test files: from 0 to 1",
             [&](LrRunOptions& own) { own.test = {test_file}; }},
        };
        for (const auto& one : changes) {
            const auto change = [&](uint32_t worker, LrRunOptions& own) {
                if (worker == 1) one.second(own);
            };
            for (const Result<LrRun>& run : train(2, options, change)) {
                REQUIRE_FALSE(run.has_value());
                CHECK(run.code() == Errc::kInvalidArgument);
                INFO(run.error().message());
                CHECK(run.error().message().find(one.first) != std::string::npos);
            }
        }
    }

    TEST_CASE("with a KKT filter less is sent, and the optimum is the same") {
        const test::Scratch folder;
        LrRunOptions options;
        options.train = {folder.file("a", words(1, 1500)), folder.file("b", words(2, 1500))};
        options.solver.l1 = 12;
        options.solver.tolerance = 0;
        options.solver.pass_count_max = 30;
        const std::vector<Result<LrRun>> filtered = train(2, options);
        options.solver.kkt = false;
        const std::vector<Result<LrRun>> whole = train(2, options);
        REQUIRE(filtered[0].has_value());
        REQUIRE(whole[0].has_value());
        const LrResult& result = filtered[0]->result;
        CHECK(result.objective == doctest::Approx(whole[0]->result.objective).epsilon(1e-4));
        double most = 0;
        for (const LrProgress& pass : result.history)
            most = std::max(most, pass.filtered_share);
        CHECK(most > 0.8);
        CHECK(result.history.back().filtered_share == 0);
        for (const LrProgress& pass : whole[0]->result.history)
            CHECK(pass.filtered_share == 0);
        // Joint steps, which the filter does not concern, send much where many weights are not 0.
        CHECK(result.nonzero_count < 100);
        const auto sent = [](const LrRun& run) {
            return run.traffic.server_bytes + run.traffic.worker_bytes;
        };
        CHECK(sent(*filtered[0]) < sent(*whole[0]) / 10 * 7);
    }

    TEST_CASE("examples on disk are trained as those in memory, also when the cache is found") {
        const test::Scratch folder;
        LrRunOptions options;
        options.train = {folder.file("a", words(1, 1500)), folder.file("b", words(2, 1500))};
        options.test = {folder.file("t", words(3, 300))};
        options.solver.kind = BatchKind::kDelayed;
        options.solver.block_count = 40;
        const std::vector<Result<LrRun>> in_memory = train(2, options);
        REQUIRE(in_memory[0].has_value());
        const double objective = in_memory[0]->result.objective;
        options.cache.folder = folder.path("cache");
        // All data; and just enough for the largest blocks, so that workers wait for each other.
        for (const uint64_t memory_bytes : {uint64_t{1} << 30, in_memory[0]->data_bytes / 3}) {
            options.cache.memory_bytes = memory_bytes;
            for (const Result<LrRun>& run : train(2, options)) {
                INFO((run ? "" : run.error().message()));
                REQUIRE(run.has_value());
                CHECK(run->result.objective == doctest::Approx(objective).epsilon(1e-3));
                CHECK(run->result.example_count == 3000);
                CHECK(run->test->log_loss ==
                      doctest::Approx(in_memory[0]->test->log_loss).epsilon(1e-2));
            }
        }
        options.cache.memory_bytes = 1000;
        for (const Result<LrRun>& run : train(2, options))
            CHECK_FALSE(run.has_value());
        options.solver.kind = BatchKind::kProx;
        CHECK(train(1, options)[0].code() == Errc::kInvalidArgument);
    }

    TEST_CASE("workers that were started with different l1 are told so") {
        const test::Scratch folder;
        LrRunOptions options;
        options.train = {folder.file("a", lines(1, 50))};
        const auto change = [](uint32_t worker, LrRunOptions& own) {
            if (worker == 1) own.solver.l1 = 0.25;
        };
        for (const Result<LrRun>& run : train(2, options, change)) {
            REQUIRE_FALSE(run.has_value());  // the worker that came later; the other hears of it
            CHECK(run.error().message().find("the ranks have different options (l1: this one ") !=
                  std::string::npos);
        }
    }

    TEST_CASE("what one worker cannot read ends all of them, and the others are told what it is") {
        const test::Scratch folder;
        LrRunOptions options;
        options.train = {folder.file("a", lines(1, 50)), folder.file("b", "+1 1:x\n")};
        size_t told = 0;
        for (const Result<LrRun>& run : train(2, options)) {
            REQUIRE_FALSE(run.has_value());
            told += run.error().message().find("/b:1:6") != std::string::npos ? 1 : 0;
        }
        CHECK(told == 2);
    }

    TEST_CASE("what one worker cannot read of the test files is told to all, beside the model") {
        const test::Scratch folder;
        LrRunOptions options;
        options.train = {folder.file("a", lines(1, 50)), folder.file("b", lines(2, 50))};
        options.test = {folder.file("t", lines(3, 50)), folder.file("u", "+1 x\n")};
        for (const uint32_t workers : {1U, 2U}) {
            for (const Result<LrRun>& run : train(workers, options)) {
                REQUIRE(run.has_value());
                CHECK(run->model.keys.size() > 0);
                CHECK(run->traffic.worker_bytes > 0);
                CHECK_FALSE(run->test.has_value());
                REQUIRE_FALSE(run->tested);
                CHECK(run->tested.error().message().find("/u:1:4") != std::string::npos);
            }
        }
        options.test = {folder.file("none", "# nothing\n")};
        for (const Result<LrRun>& run : train(2, options)) {
            REQUIRE(run.has_value());
            CHECK(run->tested.code() == Errc::kInvalidArgument);
        }
    }

    TEST_CASE("who knows of no earlier round goes on from the weights that the servers have") {
        const test::Scratch folder;
        LrRunOptions options;
        options.takes_work = true;
        options.train = {folder.file("a", lines(1, 90))};
        const Status ran = in_job_of_rounds([&](Client& client) -> Status {
            LrRounds of_first;
            WEIR_ASSIGN(const LrRun first, run_lr(client, options, of_first));
            CHECK(first.result.history[0].objective > 2 * first.result.objective);
            LrRounds of_who_joined;
            WEIR_ASSIGN(const LrRun second, run_lr(client, options, of_who_joined));
            CHECK(second.result.history[0].objective <= first.result.objective * 1.000001);
            CHECK(second.result.history[0].filtered_share == 0);  // nothing rests in its tables yet
            for (const char* gone : {"lr1.weights", "lr1.sums", "lr1.lists"})
                CHECK(client.open_table<double>(gone).code() == Errc::kNotFound);
            CHECK(client.open_table<double>("lr2.weights"));
            CHECK(second.warnings.empty());  // no model was given, though it began with weights
            return {};
        });
        CHECK_MESSAGE(ran, ran.error().text());
    }

    TEST_CASE("a stop while files are read loses no weights of an earlier round, known or not") {
        constexpr int kReason = 15;
        const test::Scratch folder;
        LrRunOptions options;
        options.takes_work = true;
        options.train = {folder.file("a", lines(1, 90))};
        std::vector<bool> told;
        LrRunOptions stopped = options;
        stopped.stops_reading = [] { return true; };
        stopped.solver.stop = [] { return kReason; };
        stopped.reads_on = [&](bool is_first) { told.push_back(is_first); };
        const Status ran = in_job_of_rounds([&](Client& client) -> Status {
            LrRounds rounds;
            CHECK(run_lr(client, stopped, rounds).code() == Errc::kCancelled);
            CHECK(told.empty());  // nothing is trained
            WEIR_ASSIGN(const LrRun first, run_lr(client, options, rounds));
            LrRounds of_who_joined;
            for (LrRounds* const known : {&rounds, &of_who_joined}) {
                WEIR_ASSIGN(const LrRun last, run_lr(client, stopped, *known));
                CHECK(last.result.end == LrEnd::kStopped);
                CHECK(last.result.stop_reason == kReason);
                CHECK(last.result.history.size() == 1);
                CHECK(last.result.example_count == 90);
                CHECK(last.result.objective <= first.result.objective * 1.000001);
                CHECK(last.model.keys == first.model.keys);
            }
            CHECK(told == std::vector<bool>{true, true});
            return {};
        });
        CHECK_MESSAGE(ran, ran.error().text());
    }

    TEST_CASE("features of the given model that are in no training line are counted") {
        const test::Scratch folder;
        LrRunOptions options;
        options.train = {folder.file("a", lines(1, 90))};
        options.solver.init = {{3, 4, 5}, {1, 1, 1}};
        const std::vector<Result<LrRun>> runs = train(2, options);
        REQUIRE(runs[0].has_value());
        REQUIRE(runs[0]->warnings.size() == 1);
        CHECK(runs[0]->warnings[0].starts_with(
            "the model to start from: 2 of 3 features are in no training line"));
    }
}

}  // namespace weir::apps

// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/lr/lr_solver.h"

#include <algorithm>
#include <new>
#include <string>

#include <doctest/doctest.h>

#include "tests/apps/lr_samples.h"
#include "tests/apps/memory_exchange.h"
#include "tests/seed.h"

namespace {

using namespace weir;
using namespace weir::apps;
using test::dense_sample;
using test::one_hot_sample;
using test::Sample;
using test::text_sample;

struct Trained {
    LrResult result;
    std::map<uint64_t, double> weights;
    uint32_t worker_count = 0;
};

Trained train(const Sample& sample, uint32_t worker_count, const LrOptions& options) {
    std::vector<LrResult> results(worker_count);
    std::vector<Model> models(worker_count);
    std::vector<std::string> errors(worker_count);
    test::run_workers(worker_count, options.l1, [&](BlockExchange& exchange) {
        const uint32_t index = exchange.worker_index();
        auto solver = LrSolver::create(exchange, sample.part(index, worker_count), options);
        REQUIRE(solver);
        auto result = solver->solve();
        REQUIRE(result);
        results[index] = *result;
        auto model = solver->model(true);
        REQUIRE(model);
        models[index] = *model;
    });
    for (uint32_t i = 1; i < worker_count; ++i) {
        CHECK(results[i].objective == results[0].objective);
        CHECK(results[i].pass_count == results[0].pass_count);
        CHECK(models[i].keys == models[0].keys);
        CHECK(models[i].weights == models[0].weights);
    }
    Trained trained{results[0], {}, worker_count};
    for (size_t i = 0; i < models[0].keys.size(); ++i) {
        trained.weights[models[0].keys[i]] = models[0].weights[i];
    }
    return trained;
}

/// Trains with default settings from several numbers of workers; each time the objective must be
/// within 0.1 % of the optimum, and everything that the result says must be true.
void check_against_reference(const Sample& sample, double l1, uint32_t most_passes) {
    const test::Reference best = test::ReferenceSolver(sample, l1).solve();
    CHECK(best.gap < 1e-4);
    for (const uint32_t workers : {1U, 2U, 4U}) {
        LrOptions options;
        options.l1 = l1;
        const Trained trained = train(sample, workers, options);
        CAPTURE(workers);
        CAPTURE(trained.result.pass_count);
        CAPTURE(trained.result.gap);
        const double objective = test::objective_of(sample, trained.weights, l1);
        CHECK(trained.result.objective == doctest::Approx(objective).epsilon(1e-9));
        CHECK(objective <= best.objective * 1.001);
        CHECK(objective >= best.objective * (1 - best.gap - 1e-9));
        CHECK(objective * (1 - trained.result.gap) <= best.objective * (1 + 1e-9));
        CHECK(trained.result.nonzero_count == trained.weights.size());
        CHECK(trained.result.pass_count <= most_passes);
        const std::vector<LrProgress>& history = trained.result.history;
        for (size_t p = 1; p < history.size(); ++p) {
            CHECK(history[p].objective <= history[p - 1].objective * (1 + 1e-12));
        }
    }
}

void check_never_rises(const Trained& trained) {
    const std::vector<LrProgress>& history = trained.result.history;
    for (size_t p = 1; p < history.size(); ++p)
        CHECK(history[p].objective <= history[p - 1].objective * (1 + 1e-9));
}

/// Has no memory left for the n-th pull, whose push is under way by then. One worker; nothing is
/// computed.
class OutOfMemoryExchange final : public BlockExchange {
public:
    explicit OutOfMemoryExchange(uint64_t pulls_left) : pulls_left_(pulls_left) {}

    [[nodiscard]] uint32_t worker_index() const noexcept override { return 0; }

    [[nodiscard]] uint32_t worker_count() const noexcept override { return 1; }

    Result<std::span<double>> make_buffer(uint64_t count) override {
        return std::span<double>(buffers_.emplace_back(count, 0.0));
    }

    void push(uint64_t, std::span<const uint64_t>, std::span<const double>, double) override {
        ++under_way_;
    }

    void pull(uint64_t, std::span<const uint64_t>, std::span<double>) override {
        if (--pulls_left_ == 0) throw std::bad_alloc();
        ++under_way_;
    }

    Status wait(uint64_t) override {
        under_way_ = 0;
        return {};
    }

    uint64_t arrived() override { return 0; }

    void start_sum(std::span<const double>, std::span<double>) override {}

    Status finish_sum() override { return {}; }

    Status sum(std::span<double>) override { return {}; }

    Status sum_at_first(std::span<double>) override { return {}; }

    Status max(std::span<double>) override { return {}; }

    Status barrier() override { return {}; }

    Status sum_by_key(std::span<const uint64_t>, std::span<double>) override { return {}; }

    Status max_by_key(std::span<const uint64_t>, std::span<double>) override { return {}; }

    Status concatenate(uint64_t, std::span<const uint64_t>, std::span<uint64_t>) override {
        return {};
    }

    [[nodiscard]] uint64_t waited_ns() const noexcept override { return 0; }

    [[nodiscard]] uint64_t under_way() const noexcept { return under_way_; }

private:
    std::deque<std::vector<double>> buffers_;
    uint64_t pulls_left_;
    uint64_t under_way_ = 0;
};

Random seeded(uint64_t offset) {
    const uint64_t seed = weir::testing::seed_or(1);
    MESSAGE("WEIR_SEED=" << seed);
    return Random(seed * 1000 + offset);
}

}  // namespace

TEST_SUITE("lr_solver") {
    TEST_CASE("dense columns with scales from 1e-3 to 1e3 reach the optimum") {
        Random random = seeded(1);
        check_against_reference(
            dense_sample(random, {.rows = 400, .columns = 30, .low = -3, .high = 3}), 1, 400);
    }

    TEST_CASE("strongly correlated dense columns reach the optimum") {
        Random random = seeded(2);
        check_against_reference(
            dense_sample(random, {.rows = 300, .columns = 20, .correlation = 0.98}), 0.1, 600);
    }

    TEST_CASE("doubled columns and a constant one reach the optimum") {
        Random random = seeded(3);
        check_against_reference(dense_sample(random, {.rows = 200,
                                                      .columns = 10,
                                                      .low = -2,
                                                      .high = 2,
                                                      .correlation = 0.3,
                                                      .doubled = true}),
                                1, 400);
    }

    TEST_CASE("separable data with a small penalty reach the optimum") {
        Random random = seeded(4);
        check_against_reference(
            dense_sample(random, {.rows = 200, .columns = 10, .correlation = 0.2, .noise = 0}),
            0.01, 1000);
    }

    TEST_CASE("more features than examples reach the optimum") {
        Random random = seeded(5);
        check_against_reference(text_sample(random, 120, 3000, true), 0.5, 1000);
    }

    TEST_CASE("a small click log reaches the optimum") {
        Random random = seeded(6);
        check_against_reference(text_sample(random, 600, 1800, false), 1, 1000);
    }

    TEST_CASE("one-hot groups, collinear with each other, reach the optimum") {
        Random random = seeded(7);
        check_against_reference(one_hot_sample(random, 2000, 10, 6), 1, 600);
    }

    TEST_CASE("columns far from zero reach the optimum, which their own dual proves") {
        Random random = seeded(11);
        for (const double offset : {30.0, 1e3, 3e4}) {
            const Sample sample = dense_sample(
                random, {.rows = 300, .columns = 12, .correlation = 0, .offset = offset});
            for (const double l1 : {0.1, 1.0}) {
                const test::ReferenceSolver reference(sample, l1);
                for (const uint32_t workers : {1U, 3U}) {
                    LrOptions options;
                    options.l1 = l1;
                    const Trained trained = train(sample, workers, options);
                    CAPTURE(offset);
                    CAPTURE(workers);
                    const double objective = test::objective_of(sample, trained.weights, l1);
                    CHECK(trained.result.objective == doctest::Approx(objective).epsilon(1e-6));
                    CHECK(objective <= reference.bound_from(trained.weights) * 1.001);
                    CHECK(trained.result.pass_count <= 100);
                    check_never_rises(trained);
                }
            }
        }
    }

    TEST_CASE("seconds since 1970 beside a constant reach the optimum and do not lose it again") {
        for (uint64_t seed = 12; seed < 16; ++seed) {
            Random random = seeded(seed);
            const test::Readings readings = test::readings_sample(random, 300);
            const test::Reference bound = test::ReferenceSolver(readings.relaxed, 1).solve();
            for (const uint32_t workers : {1U, 2U}) {
                LrOptions options;
                options.seed = seed;
                const Trained trained = train(readings.sample, workers, options);
                CAPTURE(workers);
                CHECK(trained.result.objective <= bound.objective * 1.001);
                CHECK(trained.result.objective >= bound.objective * (1 - 1e-4));
                check_never_rises(trained);
            }
        }
    }

    TEST_CASE("values near the largest float are columns like others") {
        Random random = seeded(16);
        for (const double exponent : {19.5, 30.0, 37.0}) {
            const Sample sample = dense_sample(
                random,
                {.rows = 200, .columns = 5, .low = 0, .high = exponent, .correlation = 0.2});
            const test::Reference best = test::ReferenceSolver(sample, 1).solve();
            const Trained trained = train(sample, 2, {});
            CAPTURE(exponent);
            CHECK(trained.result.objective <= best.objective * 1.001);
            CHECK(trained.result.objective >= best.objective * (1 - best.gap - 1e-9));
        }
    }

    TEST_CASE("more dense columns than a joint step takes reach the optimum") {
        Random random = seeded(17);
        const Sample sample =
            dense_sample(random, {.rows = 60, .columns = 1100, .correlation = 0.5, .offset = 10});
        const test::ReferenceSolver reference(sample, 0.5);
        LrOptions options;
        options.l1 = 0.5;
        const Trained trained = train(sample, 2, options);
        CHECK(trained.result.objective <= reference.bound_from(trained.weights) * 1.001);
    }

    TEST_CASE("any number of blocks reaches the optimum, and no pass raises the objective") {
        Random random = seeded(8);
        const Sample sample = text_sample(random, 400, 800, true);
        const test::Reference best = test::ReferenceSolver(sample, 1).solve();
        for (const uint32_t blocks : {1U, 3U, 1000000U}) {
            LrOptions options;
            options.block_count = blocks;
            const Trained trained = train(sample, 2, options);
            CAPTURE(blocks);
            CHECK(trained.result.objective <= best.objective * 1.001);
            CHECK(trained.result.block_count ==
                  std::min<uint64_t>(blocks, trained.result.feature_count));
            for (size_t p = 1; p < trained.result.history.size(); ++p) {
                CHECK(trained.result.history[p].objective <=
                      trained.result.history[p - 1].objective * (1 + 1e-12));
            }
        }
    }

    TEST_CASE("a penalty above every gradient keeps all weights at zero and is proven at once") {
        Random random = seeded(9);
        const Sample sample = dense_sample(random, {.rows = 50, .columns = 5});
        LrOptions options;
        options.l1 = 1e6;
        const Trained trained = train(sample, 2, options);
        CHECK(trained.weights.empty());
        CHECK(trained.result.end == LrEnd::kGap);
        CHECK(trained.result.objective == doctest::Approx(50 * std::log(2.0)));
        CHECK(trained.result.gap < 1e-9);
    }

    TEST_CASE("without a penalty training ends when nothing is gained any more") {
        Random random = seeded(10);
        LrOptions options;
        options.l1 = 0;
        const Sample sample = dense_sample(random, {.rows = 300, .columns = 5, .noise = 3});
        const Trained trained = train(sample, 2, options);
        CHECK(trained.result.end == LrEnd::kNoProgress);
        CHECK(trained.result.objective < 300 * std::log(2.0));
    }

    TEST_CASE("with a tolerance of 0 neither a proof nor a lack of gain ends the training") {
        Random random = seeded(11);
        const Sample sample = dense_sample(random, {.rows = 50, .columns = 5});
        LrOptions options;
        options.tolerance = 0;
        options.pass_count_max = 1500;  // without gain it would end after 400 at most
        CHECK(train(sample, 2, options).result.end == LrEnd::kPassCount);
        options.l1 = 1e6;  // at once at the optimum, which is proven
        CHECK(train(sample, 2, options).result.end == LrEnd::kPassCount);
    }

    TEST_CASE("workers without a single example take part") {
        Sample sample;
        sample.add(1, {{7, 1.0F}, {9, 1.0F}});
        sample.add(-1, {{9, 1.0F}});
        LrOptions options;
        options.l1 = 0.1;
        const Trained trained = train(sample, 4, options);
        CHECK(trained.result.example_count == 2);
        CHECK(trained.result.feature_count == 2);
        CHECK(trained.weights.contains(7));
    }

    TEST_CASE("examples without features are fitted by nothing") {
        Sample sample;
        sample.add(1, {});
        sample.add(-1, {});
        const Trained trained = train(sample, 1, {});
        CHECK(trained.result.feature_count == 0);
        CHECK(trained.result.objective == doctest::Approx(2 * std::log(2.0)));
    }

    TEST_CASE("no examples at all, or options without sense, are errors") {
        test::run_workers(2, 1, [](BlockExchange& exchange) {
            const auto solver = LrSolver::create(exchange, data::Examples{}, {});
            CHECK(solver.code() == Errc::kInvalidArgument);
        });
        test::run_workers(1, 1, [](BlockExchange& exchange) {
            for (const double l1 : {-1.0, double{NAN}, double{INFINITY}}) {
                LrOptions options;
                options.l1 = l1;
                CHECK(LrSolver::create(exchange, data::Examples{}, options).code() ==
                      Errc::kInvalidArgument);
            }
        });
    }

    TEST_CASE("every weight of the model is sent by one worker, and only to who wants the model") {
        Random random = seeded(18);
        const Sample sample = dense_sample(random, {.rows = 200, .columns = 60});
        std::vector<uint64_t> sent(4);
        std::vector<Model> models(4);
        test::run_workers(4, 1, [&](test::MemoryExchange& exchange) {
            const uint32_t index = exchange.worker_index();
            auto solver = LrSolver::create(exchange, sample.part(index, 4), {});
            REQUIRE(solver);
            REQUIRE(solver->solve());
            const uint64_t before = exchange.concatenated();
            auto model = solver->model(index == 0);
            REQUIRE(model);
            models[index] = *model;
            sent[index] = exchange.concatenated() - before;
        });
        const uint64_t weight_count = models[0].keys.size();
        CHECK(weight_count > 20);
        CHECK(sent[0] + sent[1] + sent[2] + sent[3] == 2 * weight_count);
        for (int i = 0; i < 4; ++i)
            CHECK(sent[i] < 2 * weight_count);
        for (int i = 1; i < 4; ++i)
            CHECK(models[i].keys.empty());
    }

    TEST_CASE("who reports a feature of one worker or of all workers is known without asking") {
        Random random = seeded(20);
        const Sample dense = dense_sample(random, {.rows = 200, .columns = 60});
        Sample mixed = dense;  // with a feature that workers 1 and 2 of 4 have
        for (size_t i = 0; i < mixed.rows.size(); ++i) {
            if (i % 4 == 1 || i % 4 == 2)
                mixed.rows[i].emplace_back(1000, mixed.labels[i] > 0 ? 5.0F : -5.0F);
        }
        for (const Sample* const sample : {&dense, &std::as_const(mixed)}) {
            std::vector<uint64_t> asked(4);
            Model model;
            test::run_workers(4, 1, [&](test::MemoryExchange& exchange) {
                const uint32_t index = exchange.worker_index();
                auto solver = LrSolver::create(exchange, sample->part(index, 4), {});
                REQUIRE(solver);
                REQUIRE(solver->solve());
                const uint64_t before = exchange.exchanged_by_key();
                auto reported = solver->model(index == 0);
                REQUIRE(reported);
                if (index == 0) model = *reported;
                asked[index] = exchange.exchanged_by_key() - before;
            });
            CHECK(model.keys.size() > 20);
            const bool is_mixed = sample == &mixed;
            CHECK(std::binary_search(model.keys.begin(), model.keys.end(), 1000) == is_mixed);
            const uint64_t shared = is_mixed ? 1 : 0;
            CHECK(asked == std::vector<uint64_t>{0, shared, shared, 0});
        }
    }

    TEST_CASE("where memory runs out, nothing is under way any more when the buffers go") {
        Random random = seeded(19);
        const Sample sample = text_sample(random, 100, 300, false);
        for (const uint64_t at : {uint64_t{1}, uint64_t{70}}) {
            OutOfMemoryExchange exchange(at);
            auto solver = LrSolver::create(exchange, sample.part(0, 1), {});
            REQUIRE(solver);
            CHECK_THROWS_AS((void)solver->solve(), std::bad_alloc);
            CAPTURE(at);
            CHECK(exchange.under_way() == 0);
        }
    }

    TEST_CASE("a stop after a pass ends the training with its result, and an error without one") {
        Random random(3);
        const Sample sample = text_sample(random, 300, 100, true);
        LrOptions options;
        options.tolerance = 1e-12;
        uint32_t passes = 0;
        options.progress = [&](const LrProgress&) { ++passes; };
        options.stop = [&]() -> Result<int> { return passes == 3 ? 15 : 0; };
        const Trained trained = train(sample, 1, options);
        CHECK(trained.result.end == LrEnd::kStopped);
        CHECK(trained.result.stop_reason == 15);
        CHECK(trained.result.pass_count == 3);
        passes = 0;
        options.stop = [&]() -> Result<int> {
            if (passes < 2) return 0;
            return Error(Errc::kTerminated, "the others have its work");
        };
        test::run_workers(1, options.l1, [&](BlockExchange& exchange) {
            auto solver = LrSolver::create(exchange, sample.part(0, 1), options);
            REQUIRE(solver);
            CHECK(solver->solve().code() == Errc::kTerminated);
        });
        CHECK(passes == 2);
    }

    TEST_CASE("progress is reported after every pass") {
        Sample sample;
        for (int i = 0; i < 40; ++i)
            sample.add(i % 2 == 0 ? 1 : -1, {{i % 2 == 0 ? 1U : 2U, 1.0F}});
        LrOptions options;
        uint32_t reports = 0;
        options.progress = [&](const LrProgress& progress) {
            ++reports;
            CHECK(progress.pass == reports);
        };
        const Trained trained = train(sample, 1, options);
        CHECK(reports == trained.result.pass_count);
        CHECK(trained.result.history.size() == reports);
    }
}

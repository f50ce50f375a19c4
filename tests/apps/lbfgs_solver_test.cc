// SPDX-License-Identifier: Apache-2.0
/// \file
/// LbfgsSolver in real jobs: its optimum is that of proximal gradient descent on dense arrays.

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <doctest/doctest.h>

#include "lib/apps/lbfgs/solver.h"
#include "lib/apps/lr/client_exchange.h"
#include "lib/base/random.h"
#include "tests/job/small_job.h"

namespace weir::apps {
namespace {

constexpr size_t kLbfgsFeatures = 12;
constexpr size_t kLbfgsExamples = 240;
constexpr uint64_t kKeyStep = 1'000'003;

struct Problem {
    LossFunction function;
    double l1 = 0;
    double l2 = 0;
    std::vector<std::vector<double>> rows;
    std::vector<float> targets;

    /// Every count-th example from the index-th on, as the reader would give it. The last worker has none of the last
    /// features.
    [[nodiscard]] data::Examples part(uint32_t index, uint32_t count) const {
        data::Examples examples;
        data::RowChunk chunk;
        std::map<uint64_t, uint32_t> places;
        for (size_t i = index; i < rows.size(); i += count) {
            uint32_t length = 0;
            for (size_t f = 0; f < kLbfgsFeatures; ++f) {
                if (rows[i][f] == 0) continue;
                const uint64_t key = kKeyStep * f;
                const auto [at, is_new] =
                    places.try_emplace(key, static_cast<uint32_t>(places.size()));
                if (is_new) examples.keys.push_back(key);
                chunk.features.push_back(at->second);
                chunk.values.push_back(static_cast<float>(rows[i][f]));
                ++length;
            }
            chunk.lengths.push_back(length);
            const bool is_logistic = function.loss() == Loss::kLogistic;
            chunk.labels.push_back(is_logistic ? static_cast<int8_t>(targets[i]) : int8_t{0});
            if (!is_logistic) chunk.numbers.push_back(targets[i]);
        }
        examples.report.example_count = chunk.lengths.size();
        examples.report.nonzero_count = chunk.features.size();
        examples.chunks.push_back(std::move(chunk));
        return examples;
    }

    /// And the gradient of its smooth part.
    [[nodiscard]] double objective(const std::vector<double>& w,
                                   std::vector<double>* gradient) const {
        const size_t width = function.width();
        LossSums sums;
        if (gradient != nullptr) gradient->assign(w.size(), 0);
        for (size_t i = 0; i < rows.size(); ++i) {
            std::vector<double> scores(width);
            for (size_t f = 0; f < kLbfgsFeatures; ++f) {
                for (size_t k = 0; k < width; ++k)
                    scores[k] += rows[i][f] * w[f * width + k];
            }
            function.take(std::span(&targets[i], 1), scores, sums);
            for (size_t f = 0; f < kLbfgsFeatures && gradient != nullptr; ++f) {
                for (size_t k = 0; k < width; ++k)
                    (*gradient)[f * width + k] += rows[i][f] * scores[k];
            }
        }
        double value = function.loss() == Loss::kSquared ? sums.loss / 2 : sums.loss;
        for (size_t j = 0; j < w.size(); ++j) {
            value += l1 * std::abs(w[j]) + l2 / 2 * w[j] * w[j];
            if (gradient != nullptr) (*gradient)[j] += l2 * w[j];
        }
        return value;
    }

    /// A little more than the greatest eigenvalue of X^T X.
    [[nodiscard]] double bend() const {
        std::vector<double> v(kLbfgsFeatures, 1);
        double norm = 0;
        for (int i = 0; i < 100; ++i) {
            std::vector<double> next(kLbfgsFeatures);
            for (const auto& row : rows) {
                const double score = std::inner_product(row.begin(), row.end(), v.begin(), 0.0);
                for (size_t f = 0; f < kLbfgsFeatures; ++f)
                    next[f] += score * row[f];
            }
            norm = std::sqrt(std::inner_product(next.begin(), next.end(), next.begin(), 0.0));
            for (size_t f = 0; f < kLbfgsFeatures; ++f)
                v[f] = next[f] / norm;
        }
        return 1.01 * norm;
    }

    /// By accelerated proximal gradient descent, which begins anew where it would rise.
    [[nodiscard]] double optimum() const {
        const double step = 1 / (bend() + l2);
        std::vector<double> w(kLbfgsFeatures * function.width());
        std::vector<double> at = w;
        std::vector<double> gradient;
        double speed = 1;
        double best = objective(w, nullptr);
        for (int i = 0; i < 1000; ++i) {
            (void)objective(at, &gradient);
            const std::vector<double> before = w;
            for (size_t j = 0; j < w.size(); ++j) {
                const double moved = at[j] - step * gradient[j];
                w[j] = std::copysign(std::max(0.0, std::abs(moved) - step * l1), moved);
            }
            const double now = objective(w, nullptr);
            const double next = now > best ? 1 : (1 + std::sqrt(1 + 4 * speed * speed)) / 2;
            for (size_t j = 0; j < w.size(); ++j)
                at[j] = w[j] + (now > best ? 0 : (speed - 1) / next * (w[j] - before[j]));
            speed = next;
            best = std::min(best, now);
        }
        return best;
    }
};

Problem problem(LossFunction function, double l1, double l2) {
    Random random(11);
    Problem made{function, l1, l2, {}, {}};
    const auto drawn = [&] { return 2 * random.uniform() - 1; };
    std::vector<double> truth(kLbfgsFeatures * function.width());
    for (size_t i = 0; i < truth.size(); i += 2)  // the others are noise
        truth[i] = 2 * drawn();
    for (size_t i = 0; i < kLbfgsExamples; ++i) {
        std::vector<double> row(kLbfgsFeatures);
        std::vector<double> scores(function.width());
        for (size_t f = 0; f < kLbfgsFeatures; ++f) {
            if (random.below(2) == 0) continue;
            if (i % 3 == 2 && f + 3 > kLbfgsFeatures) continue;
            row[f] = static_cast<double>(static_cast<float>(drawn()));
            for (size_t k = 0; k < scores.size(); ++k)
                scores[k] += row[f] * truth[f * scores.size() + k];
        }
        made.rows.push_back(std::move(row));
        const double score = scores[0] + drawn();
        switch (function.loss()) {
            case Loss::kLogistic: made.targets.push_back(score > 0 ? 1.0F : -1.0F); break;
            case Loss::kSquared: made.targets.push_back(static_cast<float>(score)); break;
            case Loss::kSoftmax:
                made.targets.push_back(static_cast<float>(
                    random.below(5) == 0 ? random.below(scores.size())
                                         : static_cast<uint64_t>(std::ranges::max_element(scores) -
                                                                 scores.begin())));
        }
    }
    return made;
}

struct Trained {
    LrResult result;
    Model model;
};

Trained train(const Problem& problem, uint32_t servers, uint32_t workers, LrOptions options) {
    options.l1 = problem.l1;
    options.l2 = problem.l2;
    options.kind = BatchKind::kLbfgs;
    options.loss = problem.function.loss();
    if (options.loss == Loss::kSoftmax) options.classes = *data::ClassLabels::parse("0-3");
    JobOptions shape;
    shape.servers = servers;
    shape.shards_per_server = 2;
    shape.workers = workers;
    shape.add_rules = add_exchange_rules;
    const auto job = test::start_job(shape);
    std::vector<Trained> trained(workers);
    test::each_worker(*job, [&](uint32_t i) {
        auto client = job->make_client(i);
        if (!client) return;
        const auto run = [&]() -> Status {
            const uint32_t width = options.function().width();
            WEIR_ASSIGN(const auto exchange, ClientExchange::make(*client, "t", 0, {i, workers}));
            WEIR_ASSIGN(Table<double> weights,
                        client->create_table<double>("w", LbfgsTables::weights_options(width, {})));
            WEIR_ASSIGN(LbfgsTables tables,
                        LbfgsTables::make(*client, "t", std::move(weights),
                                          {width, options.pairs_max, options.l1, options.l2}, {}));
            WEIR_ASSIGN(LbfgsSolver solver, LbfgsSolver::create(*exchange, std::move(tables),
                                                                problem.part(i, workers), options));
            WEIR_ASSIGN(trained[i].result, solver.solve());
            WEIR_ASSIGN(trained[i].model, solver.model(true));
            return {};
        };
        const Status done = run();
        if (!done) MESSAGE(done.error().message());
        CHECK(done.has_value());
        (void)client->leave(done);
    });
    (void)job->serve();
    for (const Trained& one : trained) {
        CHECK(one.result.objective == trained[0].result.objective);
        CHECK(one.model.keys == trained[0].model.keys);
        CHECK(one.model.weights == trained[0].model.weights);
    }
    return std::move(trained[0]);
}

LrOptions exact() {
    LrOptions options;
    options.tolerance = 1e-13;
    options.pass_count_max = 400;
    return options;
}

void check_optimum(LossFunction function, double l1, double l2) {
    CAPTURE(name_of(function.loss()));
    CAPTURE(l1);
    const Problem of = problem(function, l1, l2);
    const double wanted = of.optimum();
    const Trained alone = train(of, 1, 1, exact());
    const Trained together = train(of, 2, 3, exact());
    CHECK(alone.result.objective == doctest::Approx(wanted).epsilon(1e-8));
    CHECK(together.result.objective == doctest::Approx(alone.result.objective).epsilon(1e-9));
    CHECK(alone.result.pass_count < 200);
    std::vector<double> dense(kLbfgsFeatures * function.width());
    for (size_t i = 0; i < alone.model.keys.size(); ++i) {
        for (size_t k = 0; k < function.width(); ++k)
            dense[alone.model.keys[i] / kKeyStep * function.width() + k] =
                alone.model.weights[i * function.width() + k];
    }
    CHECK(of.objective(dense, nullptr) == doctest::Approx(alone.result.objective).epsilon(1e-12));
    if (l1 > 0) {
        CHECK(std::ranges::count(dense, 0.0) > 0);
        CHECK(alone.result.nonzero_count == alone.model.keys.size());
    }
    if (l2 > 0) CHECK(alone.result.gap < 1e-9);
}

}  // namespace

TEST_SUITE("lbfgs solver") {
    TEST_CASE("the logistic loss, with either penalty or both") {
        check_optimum({Loss::kLogistic, 1}, 0, 1);
        check_optimum({Loss::kLogistic, 1}, 6, 0);
        check_optimum({Loss::kLogistic, 1}, 5, 0.5);
    }

    TEST_CASE("a softmax, with either penalty or both") {
        check_optimum({Loss::kSoftmax, 4}, 0, 1);
        check_optimum({Loss::kSoftmax, 4}, 3, 0);
        check_optimum({Loss::kSoftmax, 4}, 2, 0.5);
    }

    TEST_CASE("the squared loss, with either penalty or both") {
        check_optimum({Loss::kSquared, 1}, 0, 1);
        check_optimum({Loss::kSquared, 1}, 6, 0);
        check_optimum({Loss::kSquared, 1}, 5, 0.5);
    }

    TEST_CASE("the gap is proven, and ends the training; it starts where it is told") {
        const Problem of = problem({Loss::kLogistic, 1}, 0, 1);
        LrOptions options;
        options.tolerance = 1e-6;
        const Trained first = train(of, 1, 2, options);
        CHECK(first.result.end == LrEnd::kGap);
        CHECK(first.result.gap <= 1e-6);
        CHECK(first.result.objective - of.optimum() <= first.result.gap * first.result.objective);
        options.init = first.model;
        const Trained second = train(of, 1, 2, options);
        CHECK(second.result.pass_count < first.result.pass_count / 2);
        CHECK(second.result.init_feature_count == kLbfgsFeatures);
    }

    TEST_CASE(
        "functions of other tables than those of L-BFGS end the job, and touch nothing else") {
        JobOptions shape;
        shape.add_rules = add_exchange_rules;
        const auto job = test::start_job(shape);
        auto client = std::move(job->make_client(0)).value();
        const auto make = [&](std::string_view name, uint32_t width) {
            return std::move(
                       client.create_table<double>(name, LbfgsTables::weights_options(width, {})))
                .value();
        };
        auto history = make("history", 63);  // of 31 pairs
        auto weights = make("weights", 1);
        const std::vector<uint64_t> keys = {1, 2, 3};
        REQUIRE(history.call("assign", keys, {.numbers = {1}}).wait());
        CallResult result;
        CHECK(
            history
                .call("lbfgs_products", {.numbers = {0, 0, 31}, .with = weights, .result = &result})
                .wait()
                .code() == Errc::kInvalidArgument);
        const Status done =
            history
                .call("lbfgs_products", {.numbers = {0, 0, 30}, .with = weights, .result = &result})
                .wait();
        CHECK(done.code() == Errc::kException);
        (void)client.leave(done);
        (void)job->serve();
    }

    TEST_CASE("there may be more workers than examples") {
        Problem of = problem({Loss::kLogistic, 1}, 0, 1);
        of.rows.resize(2);
        of.targets.resize(2);
        CHECK(train(of, 1, 3, exact()).result.objective ==
              doctest::Approx(of.optimum()).epsilon(1e-8));
    }
}

}  // namespace weir::apps

// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/metrics.h"

#include <cmath>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/apps/memory_exchange.h"
#include "tests/seed.h"

namespace weir::apps {
namespace {

/// By looking at every pair.
double slow_auc(const Scores& scores) {
    double above = 0;
    for (const double positive : scores.positive) {
        for (const double negative : scores.negative)
            above += positive > negative ? 1 : positive == negative ? 0.5 : 0;
    }
    return above / static_cast<double>(scores.positive.size() * scores.negative.size());
}

/// Scores with many ties; positive ones are higher on the whole.
Scores random_scores(Random& random, uint64_t count, double positive_share) {
    Scores scores;
    for (uint64_t i = 0; i < count; ++i) {
        const bool positive = random.uniform() < positive_share;
        const double score = std::floor(random.uniform() * 40) / 10 - (positive ? 1 : 2);
        (positive ? scores.positive : scores.negative).push_back(score);
    }
    return scores;
}

}  // namespace

TEST_SUITE("metrics") {
    TEST_CASE("accuracy, log loss and AUC of a handful of examples are those done by hand") {
        Scores scores;
        scores.add(std::vector<int8_t>{1, -1, 0, -1, 1}, std::vector<double>{2, 2, 9, -1, 0});
        const Metrics metrics = measure(scores);
        CHECK(metrics.example_count == 4);
        CHECK(metrics.accuracy == 0.5);  // a score of 0 says -1
        CHECK(metrics.auc == 2.5 / 4);
        const double loss = (std::log1p(std::exp(-2)) + std::log1p(std::exp(2)) +
                             std::log1p(std::exp(-1)) + std::log(2)) /
                            4;
        CHECK(metrics.log_loss == doctest::Approx(loss));
    }

    TEST_CASE("without a pair there is no AUC, and without examples nothing at all") {
        Scores none;
        CHECK(measure(none).example_count == 0);
        CHECK_FALSE(measure(none).auc.has_value());
        Scores one;
        one.add(std::vector<int8_t>{1, 1}, std::vector<double>{1, 2});
        CHECK_FALSE(measure(one).auc.has_value());
        CHECK(measure(one).accuracy == 1);
    }

    TEST_CASE("scores beyond all numbers do no harm") {
        Scores scores;
        scores.positive = {INFINITY, -INFINITY, NAN};
        scores.negative = {-INFINITY, 0};
        CHECK(measure(scores).auc == (2 + 0.5 + 1.5) / 6);
    }

    TEST_CASE("AUC is exact with ties, however the examples are shared out") {
        WEIR_TEST_SEED(seed, 20141006);
        Random random(seed);
        for (const double positive_share : {0.5, 0.1, 0.9}) {
            const Scores all = random_scores(random, 3000, positive_share);
            const double wanted = slow_auc(all);
            Scores sorted = all;
            const Metrics alone = measure(sorted);
            CHECK(alone.auc == wanted);
            test::run_workers(3, 0, [&](BlockExchange& exchange) {
                Scores mine;
                for (uint64_t i = 0; i < all.positive.size(); ++i) {
                    if (i % 2 == exchange.worker_index()) mine.positive.push_back(all.positive[i]);
                }
                for (uint64_t i = 0; i < all.negative.size(); ++i) {  // worker 0 has none
                    if (1 + i % 2 == exchange.worker_index())
                        mine.negative.push_back(all.negative[i]);
                }
                const Result<Metrics> metrics = measure(exchange, mine);
                REQUIRE(metrics);
                CHECK(metrics->auc == wanted);
                CHECK(metrics->example_count == 3000);
                CHECK(metrics->accuracy == alone.accuracy);
                CHECK(metrics->log_loss == doctest::Approx(alone.log_loss));
            });
        }
    }

    TEST_CASE("more examples than one sum can carry go round in windows") {
        WEIR_TEST_SEED(seed, 7);
        Random random(seed);
        const uint64_t count = 3 * kReduceValueCountMax;
        std::vector<Scores> parts = {random_scores(random, count, 0.5),
                                     random_scores(random, count / 2, 0.3)};
        Scores all = parts[0];
        all.positive.insert(all.positive.end(), parts[1].positive.begin(), parts[1].positive.end());
        all.negative.insert(all.negative.end(), parts[1].negative.begin(), parts[1].negative.end());
        const Metrics alone = measure(all);
        test::run_workers(2, 0, [&](BlockExchange& exchange) {
            Scores mine = parts[exchange.worker_index()];
            const Result<Metrics> metrics = measure(exchange, mine);
            REQUIRE(metrics);
            REQUIRE(metrics->auc.has_value());
            CHECK(*metrics->auc == *alone.auc);
        });
    }
}

}  // namespace weir::apps

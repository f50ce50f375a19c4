// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/loss.h"

#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "lib/apps/metrics.h"
#include "lib/apps/online/progressive.h"
#include "lib/base/random.h"
#include "tests/seed.h"

namespace {

using namespace weir;
using namespace weir::apps;

double loss_of(const LossFunction& function, float target, std::vector<float> scores) {
    LossSums sums;
    function.take(std::vector{target}, scores, sums);
    return function.loss() == Loss::kSquared ? sums.loss / 2 : sums.loss;
}

}  // namespace

TEST_SUITE("loss") {
    TEST_CASE("slopes are those of the loss") {
        WEIR_TEST_SEED(seed, 11);
        Random random(seed);
        for (const LossFunction& function :
             {LossFunction(Loss::kLogistic, 0), LossFunction(Loss::kSoftmax, 4),
              LossFunction(Loss::kSquared, 0)}) {
            for (int i = 0; i < 50; ++i) {
                std::vector<float> scores;
                for (uint32_t k = 0; k < function.width(); ++k)
                    scores.push_back(static_cast<float>(4 * random.uniform() - 2));
                const float target = function.loss() == Loss::kSoftmax
                                         ? static_cast<float>(random.below(4))
                                         : static_cast<float>(random.below(2)) * 2 - 1;
                std::vector<float> slopes = scores;
                LossSums sums;
                function.take(std::vector{target}, slopes, sums);
                for (uint32_t k = 0; k < function.width(); ++k) {
                    constexpr float kStep = 1.0F / 64;
                    std::vector<float> up = scores;
                    std::vector<float> down = scores;
                    up[k] += kStep;
                    down[k] -= kStep;
                    const double slope =
                        (loss_of(function, target, up) - loss_of(function, target, down)) /
                        (2 * kStep);
                    CHECK(static_cast<double>(slopes[k]) == doctest::Approx(slope).epsilon(0.001));
                }
            }
        }
    }

    TEST_CASE("great scores overflow nothing") {
        CHECK(loss_of({Loss::kLogistic, 0}, -1, {1e30F}) == doctest::Approx(1e30));
        CHECK(loss_of({Loss::kSoftmax, 2}, 0, {1000, -1000}) == 0);
        CHECK(loss_of({Loss::kSoftmax, 2}, 1, {1000, -1000}) == doctest::Approx(2000));
    }

    TEST_CASE("names come back") {
        for (const Loss loss : {Loss::kLogistic, Loss::kSoftmax, Loss::kSquared})
            CHECK(loss_named(name_of(loss)) == loss);
        CHECK_FALSE(loss_named("hinge"));
    }
}

TEST_SUITE("progressive") {
    TEST_CASE("sums that are added up are those of all examples, and AUC is near the exact one") {
        WEIR_TEST_SEED(seed, 12);
        Random random(seed);
        const LossFunction function(Loss::kLogistic, 0);
        std::vector<ProgressiveSums> parts(3);
        Scores exact;
        for (int i = 0; i < 3000; ++i) {
            const float label = random.below(3) == 0 ? 1 : -1;
            auto score = static_cast<float>(random.uniform() * 4 - 2) + label / 2;
            const auto exact_score = static_cast<double>(score);
            exact.add(std::vector{static_cast<int8_t>(label)}, std::vector{exact_score});
            parts[static_cast<size_t>(i) % 3].add(function, std::vector{label},
                                                  std::span(&score, 1), 7);
        }
        ProgressiveSums all;
        for (ProgressiveSums& part : parts) {
            for (size_t i = 0; i < all.values().size(); ++i)
                all.values()[i] += part.values()[i];
        }
        const Metrics wanted = measure(exact);
        const OnlineProgress progress = all.progress(Loss::kLogistic, {});
        CHECK(progress.examples == 3000);
        CHECK(progress.features == 21'000);
        CHECK(progress.loss == doctest::Approx(wanted.log_loss).epsilon(1e-5));
        CHECK(progress.recent_loss == progress.loss);
        CHECK(*progress.accuracy == doctest::Approx(wanted.accuracy));
        CHECK(*progress.auc == doctest::Approx(*wanted.auc).epsilon(1e-3));
    }

    TEST_CASE("the recent loss is that of the examples since the last progress") {
        const LossFunction function(Loss::kSquared, 0);
        ProgressiveSums before;
        float score = 3;
        before.add(function, std::vector{0.0F}, std::span(&score, 1), 1);
        ProgressiveSums all = before;
        score = 1;
        all.add(function, std::vector{0.0F}, std::span(&score, 1), 1);
        const OnlineProgress progress = all.progress(Loss::kSquared, before);
        CHECK(progress.loss == 5);
        CHECK(progress.recent_loss == 1);
        CHECK_FALSE(progress.accuracy);
        CHECK_FALSE(progress.auc);
    }

    TEST_CASE("a single class has no AUC, and scores beyond all bins are counted") {
        const LossFunction function(Loss::kLogistic, 0);
        ProgressiveSums sums;
        for (const float value : {-1e30F, 1e30F, std::nanf("")}) {
            float score = value;
            sums.add(function, std::vector{1.0F}, std::span(&score, 1), 1);
        }
        CHECK_FALSE(sums.progress(Loss::kLogistic, {}).auc);
        CHECK(sums.progress(Loss::kLogistic, {}).examples == 3);
    }
}

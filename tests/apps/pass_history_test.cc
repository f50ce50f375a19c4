// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/lr/pass_history.h"

#include <cmath>

#include <doctest/doctest.h>

#include "lib/base/random.h"

namespace weir::apps {
namespace {

constexpr uint64_t kRows = 60;
constexpr uint64_t kColumns = 12;
constexpr double kL1 = 0.3;

/// A small dense problem: margins are data times weights.
struct Problem {
    explicit Problem(uint64_t seed) : random(seed) {
        for (uint64_t i = 0; i < kRows; ++i) {
            labels.push_back(random.below(2) == 0 ? -1 : 1);
            for (uint64_t j = 0; j < kColumns; ++j)
                data.push_back(random.uniform() - 0.5);
        }
    }

    /// Weights of which none is 0, so that the objective is smooth where they are.
    std::vector<double> some_weights() {
        std::vector<double> weights;
        for (uint64_t j = 0; j < kColumns; ++j)
            weights.push_back((j % 2 == 0 ? 1 : -1) * (0.5 + random.uniform()));
        return weights;
    }

    [[nodiscard]] std::vector<double> margins(std::span<const double> weights) const {
        std::vector<double> margins(kRows, 0);
        for (uint64_t i = 0; i < kRows; ++i) {
            for (uint64_t j = 0; j < kColumns; ++j)
                margins[i] += data[i * kColumns + j] * weights[j];
        }
        return margins;
    }

    [[nodiscard]] double objective(std::span<const double> weights) const {
        double sum = 0;
        const std::vector<double> m = margins(weights);
        for (uint64_t i = 0; i < kRows; ++i)
            sum += std::log1p(std::exp(-labels[i] * m[i]));
        for (const double w : weights)
            sum += kL1 * std::abs(w);
        return sum;
    }

    Random random;
    std::vector<int8_t> labels;
    std::vector<double> data;
};

std::vector<double> moved(std::span<const double> from, double step,
                          std::span<const double> direction) {
    std::vector<double> to(from.begin(), from.end());
    for (uint64_t j = 0; j < to.size(); ++j)
        to[j] += step * direction[j];
    return to;
}

std::vector<double> dense(const SparseWeights& sparse) {
    std::vector<double> weights(kColumns, 0);
    for (uint64_t k = 0; k < sparse.size(); ++k)
        weights[sparse.columns[k]] = sparse.values[k];
    return weights;
}

double counted_part(uint32_t /*column*/) {
    return 1;
}

}  // namespace

TEST_SUITE("pass history") {
    TEST_CASE("the system has the objective's slope and bend along the way between two passes") {
        Problem problem(3);
        const std::vector<double> before = problem.some_weights();
        const std::vector<double> now = problem.some_weights();
        PassHistory history;
        history.remember(SparseWeights::of(before), problem.margins(before));
        const std::vector<double> margins = problem.margins(now);
        const SparseWeights weights = SparseWeights::of(now);
        const auto system = history.system(problem.labels, {weights, margins}, kL1, counted_part);

        const std::vector<double> way = moved(now, -1, before);
        constexpr double kStep = 1e-4;
        const double ahead = problem.objective(moved(now, kStep, way));
        const double here = problem.objective(now);
        const double behind = problem.objective(moved(now, -kStep, way));
        const double slope = (ahead - behind) / (2 * kStep);
        const double bend = (ahead - 2 * here + behind) / (kStep * kStep);
        CHECK(system[PassHistory::kSystemSize - PassHistory::kDepth] ==
              doctest::Approx(-slope).epsilon(1e-5));
        CHECK(system[0] == doctest::Approx(bend).epsilon(1e-3));
    }

    TEST_CASE("a step goes down, its margins are those of its weights, and three passes count") {
        Problem problem(4);
        PassHistory history;
        for (uint64_t pass = 0; pass < 5; ++pass) {
            const std::vector<double> weights = problem.some_weights();
            history.remember(SparseWeights::of(weights), problem.margins(weights));
        }
        CHECK(history.depth() == PassHistory::kDepth);
        const std::vector<double> now = problem.some_weights();
        const std::vector<double> margins = problem.margins(now);
        const SparseWeights weights = SparseWeights::of(now);
        const auto system = history.system(problem.labels, {weights, margins}, kL1, counted_part);
        std::vector<double> step_margins(kRows);
        const SparseWeights step = history.direction(system, {weights, margins}, step_margins);

        const std::vector<double> direction = dense(step);
        const std::vector<double> expected = problem.margins(direction);
        for (uint64_t i = 0; i < kRows; ++i)
            CHECK(step_margins[i] == doctest::Approx(expected[i]).epsilon(1e-9));
        CHECK(problem.objective(moved(now, 0.05, direction)) < problem.objective(now));
    }

    TEST_CASE("passes that ended in the same place give no step and no nonsense") {
        Problem problem(5);
        const std::vector<double> now = problem.some_weights();
        const std::vector<double> margins = problem.margins(now);
        const SparseWeights weights = SparseWeights::of(now);
        PassHistory history;
        history.remember(weights, margins);
        history.remember(weights, margins);
        const auto system = history.system(problem.labels, {weights, margins}, kL1, counted_part);
        std::vector<double> step_margins(kRows);
        const SparseWeights step = history.direction(system, {weights, margins}, step_margins);
        for (const double w : dense(step))
            CHECK(w == doctest::Approx(0));
    }
}

}  // namespace weir::apps

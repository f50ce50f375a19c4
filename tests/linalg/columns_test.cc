// SPDX-License-Identifier: Apache-2.0
#include "lib/linalg/columns.h"

#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/linalg/logistic.h"
#include "tests/seed.h"

namespace {

using namespace weir::linalg;

/// A random sparse matrix, and the same as a dense one.
struct Sample {
    static constexpr uint32_t kRows = 60;
    static constexpr uint32_t kColumns = 25;
    std::vector<uint64_t> offsets = {0};
    std::vector<uint32_t> rows;
    std::vector<float> values;
    double dense[kRows][kColumns] = {};

    Sample(weir::Random& random, bool ones) {
        for (uint32_t j = 0; j < kColumns; ++j) {
            const double scale = std::pow(10.0, 4 * random.uniform() - 2);
            for (uint32_t i = 0; i < kRows; ++i) {
                if (random.below(4) != 0) continue;
                const auto value =
                    ones ? 1.0F : static_cast<float>(scale * (2 * random.uniform() - 1));
                rows.push_back(i);
                if (!ones) values.push_back(value);
                dense[i][j] = static_cast<double>(value);
            }
            offsets.push_back(rows.size());
        }
    }

    [[nodiscard]] Columns view() const { return {offsets, rows, values}; }
};

}  // namespace

TEST_SUITE("columns") {
    TEST_CASE("gradients and margin updates are those of the dense matrix") {
        WEIR_TEST_SEED(seed, 42);
        weir::Random random(seed);
        for (const bool ones : {true, false}) {
            const Sample sample(random, ones);
            const ColumnRange range = {5, 17};
            std::vector<double> slopes(Sample::kRows);
            for (double& slope : slopes)
                slope = random.uniform() - 0.5;
            std::vector<double> result(range.size());
            gradient(sample.view(), range, slopes, result);
            std::vector<double> margins(Sample::kRows, 0.5);
            std::vector<double> deltas(range.size());
            for (double& delta : deltas)
                delta = random.below(3) == 0 ? 0 : random.uniform();
            add_to_margins(sample.view(), range, deltas, margins);
            for (uint64_t k = 0; k < range.size(); ++k) {
                double sum = 0;
                for (uint32_t i = 0; i < Sample::kRows; ++i) {
                    sum += slopes[i] * sample.dense[i][range.begin + k];
                }
                CHECK(result[k] == doctest::Approx(sum).epsilon(1e-12));
            }
            for (uint32_t i = 0; i < Sample::kRows; ++i) {
                double margin = 0.5;
                for (uint64_t k = 0; k < range.size(); ++k) {
                    margin += deltas[k] * sample.dense[i][range.begin + k];
                }
                CHECK(margins[i] == doctest::Approx(margin).epsilon(1e-12));
            }
        }
    }

    TEST_CASE("the model of a block lies above the loss wherever trust lets the weights go") {
        WEIR_TEST_SEED(seed, 43);
        weir::Random random(seed);
        for (int round = 0; round < 40; ++round) {
            const Sample sample(random, round % 2 == 0);
            const ColumnRange range = {3, 20};
            std::vector<int8_t> labels(Sample::kRows);
            std::vector<double> margins(Sample::kRows);
            for (uint32_t i = 0; i < Sample::kRows; ++i) {
                labels[i] = random.below(2) == 0 ? 1 : -1;
                margins[i] = 8 * random.uniform() - 4;
            }
            std::vector<float> trust(range.size());
            for (float& t : trust) {
                t = static_cast<float>(std::pow(10.0, 4 * random.uniform() - 3));
            }
            std::vector<RowTerm> terms(Sample::kRows);
            add_reach(sample.view(), range, trust, terms);
            logistic_terms(labels, margins, terms);
            std::vector<double> pairs(2 * range.size());
            gradient_and_curvature(sample.view(), range, trust, terms, pairs);
            const double before = logistic_loss_sum(labels, margins);
            for (int attempt = 0; attempt < 50; ++attempt) {
                std::vector<double> deltas(range.size());
                double bound = before;
                for (uint64_t k = 0; k < deltas.size(); ++k) {
                    const double side = attempt % 2 == 0 ? 2 * random.uniform() - 1
                                                         : (random.below(2) == 0 ? 1.0 : -1.0);
                    deltas[k] = side * static_cast<double>(trust[k]);
                    bound +=
                        pairs[2 * k] * deltas[k] + pairs[2 * k + 1] * deltas[k] * deltas[k] / 2;
                }
                std::vector<double> moved = margins;
                add_to_margins(sample.view(), range, deltas, moved);
                CHECK(logistic_loss_sum(labels, moved) <= bound + 1e-9);
            }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
#include "lib/linalg/gram.h"

#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"

namespace {

using namespace weir;
using namespace weir::linalg;

/// Columns that each have about `share` of the rows, and the same as dense ones to compare with.
struct RandomColumns {
    RandomColumns(Random& random, uint64_t row_count, uint64_t column_count, double share) {
        offsets.push_back(0);
        for (uint64_t j = 0; j < column_count; ++j) {
            dense.emplace_back(row_count, 0);
            for (uint64_t i = 0; i < row_count; ++i) {
                if (random.uniform() > share) continue;
                rows.push_back(static_cast<uint32_t>(i));
                values.push_back(static_cast<float>(random.uniform() - 0.5));
                dense[j][i] = static_cast<double>(values.back());
            }
            offsets.push_back(rows.size());
        }
    }

    [[nodiscard]] Columns view() const { return {offsets, rows, values}; }

    std::vector<uint64_t> offsets;
    std::vector<uint32_t> rows;
    std::vector<float> values;
    std::vector<std::vector<double>> dense;
};

void check(const RandomColumns& sample, std::span<const uint32_t> columns,
           std::span<const double> weights) {
    std::vector<double> triangle(triangle_size(columns.size()), 1.0);  // the sums add to 1
    add_weighted_gram(sample.view(), columns, weights, triangle);
    uint64_t at = 0;
    for (uint64_t a = 0; a < columns.size(); ++a) {
        CHECK(triangle_row(a, columns.size()) == at);
        for (uint64_t b = a; b < columns.size(); ++b) {
            double sum = 1;
            for (uint64_t i = 0; i < weights.size(); ++i) {
                if (columns[a] == kNoColumn || columns[b] == kNoColumn) continue;
                sum += weights[i] * sample.dense[columns[a]][i] * sample.dense[columns[b]][i];
            }
            CHECK(triangle[at++] == doctest::Approx(sum).epsilon(1e-12));
        }
    }
    CHECK(at == triangle.size());
}

}  // namespace

TEST_SUITE("gram") {
    TEST_CASE("sparse and full rows, many of them, give the sums that a plain loop gives") {
        for (const double share : {0.1, 0.6, 1.0}) {
            WEIR_TEST_SEED(seed, 7);
            Random random(seed);
            const RandomColumns sample(random, 2500, 9, share);
            std::vector<double> weights(2500);
            for (double& weight : weights)
                weight = random.uniform();
            check(sample, std::vector<uint32_t>{3, 0, 8, 5}, weights);
            check(sample, std::vector<uint32_t>{2, kNoColumn, 1}, weights);
        }
    }

    TEST_CASE("no rows and no columns add nothing") {
        Random random(8);
        const RandomColumns sample(random, 0, 3, 1);
        check(sample, std::vector<uint32_t>{0, 2}, {});
        check(sample, {}, {});
    }

    TEST_CASE("columns without values are all ones") {
        WEIR_TEST_SEED(seed, 9);
        Random random(seed);
        RandomColumns sample(random, 40, 4, 0.5);
        for (auto& column : sample.dense) {
            for (double& value : column)
                value = value != 0 ? 1 : 0;
        }
        sample.values.clear();
        check(sample, std::vector<uint32_t>{0, 1, 3}, std::vector<double>(40, 0.25));
    }
}

// SPDX-License-Identifier: Apache-2.0
#include "lib/eigen.h"

#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/linalg/random_sparse.h"
#include "tests/seed.h"

namespace weir {

TEST_SUITE("eigen") {
    TEST_CASE("what was pulled is Eigen's where it lies") {
        std::vector<float> values{1, 2, 3, 4, 5, 6};
        const std::vector<uint64_t> keys{3, 5, 8, 9, 11, 12};
        const linalg::Vector w(keys, values);
        as_eigen(w) *= 2;
        CHECK(values[5] == 12);
        CHECK(as_eigen(w).data() == values.data());
        const std::vector<uint64_t> three{3, 5, 8};
        const linalg::Matrix m(three, values, 2);
        CHECK(as_eigen(m)(1, 0) == 6);
        as_eigen(m).row(2).setZero();
        CHECK(values[4] == 0);
        const linalg::Vector<const float> read = w;
        CHECK(as_eigen(read).sum() == 2 + 4 + 6 + 8);
    }

    TEST_CASE("sparse products are Eigen's") {
        WEIR_TEST_SEED(seed, 84);
        Random random(seed);
        const linalg::RandomSparse<int32_t> sample(random, 70, 40, 0.2, false);
        const auto rows = sample.rows.view();
        const auto turned = linalg::by_columns(rows);
        std::vector<float> w(40);
        std::vector<float> g(70);
        for (float& value : w)
            value = static_cast<float>(random.below(9));
        for (float& value : g)
            value = static_cast<float>(random.below(9));
        std::vector<float> ours(70);
        std::vector<float> gradient(40);
        linalg::multiply(rows, w, ours);
        linalg::multiply_transposed(turned.view(), g, gradient);
        const Eigen::VectorXf theirs = as_eigen(rows) * as_eigen(std::span<const float>(w));
        CHECK(theirs == as_eigen(std::span<const float>(ours)));
        const Eigen::VectorXf transposed =
            as_eigen(turned.view()).transpose() * as_eigen(std::span<const float>(g));
        CHECK(transposed == as_eigen(std::span<const float>(gradient)));
    }
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/lr/sparse_weights.h"

#include <doctest/doctest.h>

namespace weir::apps {

TEST_SUITE("sparse weights") {
    TEST_CASE("only what is not 0 is kept, in the order of the columns") {
        const SparseWeights sparse = SparseWeights::of(std::vector<double>{0, 2, 0, -3});
        CHECK(sparse.columns == std::vector<uint32_t>{1, 3});
        CHECK(sparse.values == std::vector<double>{2, -3});
        CHECK(SparseWeights::of({}).size() == 0);
    }

    TEST_CASE("adding visits every column of either once, with 0 where there is none") {
        const SparseWeights a = SparseWeights::of(std::vector<double>{1, 2, 0, 0, 5});
        const SparseWeights b = SparseWeights::of(std::vector<double>{0, 10, 0, 20});
        const SparseWeights sum = add_scaled(a, -0.5, b);
        CHECK(sum.columns == std::vector<uint32_t>{0, 1, 3, 4});
        CHECK(sum.values == std::vector<double>{1, -3, -10, 5});
        CHECK(add_scaled({}, 2, b).values == std::vector<double>{20, 40});
        CHECK(add_scaled(a, 2, {}).values == a.values);
    }
}

}  // namespace weir::apps

// SPDX-License-Identifier: Apache-2.0
#include "lib/base/random.h"

#include <doctest/doctest.h>

TEST_SUITE("random") {
    TEST_CASE("a bounded number stays below its bound and reaches every value") {
        weir::Random random(7);
        int seen[5] = {};
        for (int i = 0; i < 1000; ++i)
            ++seen[random.below(5)];
        for (const int count : seen)
            CHECK(count > 100);
    }
}

// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/magnitudes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"

TEST_SUITE("magnitudes") {
    using namespace weir;

    namespace {

    template <class T>
    std::vector<double> sizes(const std::vector<T>& values, uint32_t width) {
        std::vector<double> greatest(values.size() / width);
        magnitudes({value_type_of<T>(), width}, std::as_bytes(std::span(values)).data(), greatest);
        return greatest;
    }

    }  // namespace

    TEST_CASE_TEMPLATE("the size of a row is that of its greatest value", T, float, double, int32_t,
                       int64_t, uint32_t, uint64_t) {
        WEIR_TEST_SEED(seed, 1);
        Random random(seed);
        for (const uint32_t width : {1U, 2U, 3U, 16U, 33U}) {
            std::vector<T> values(100 * width);
            std::vector<double> wanted(100);
            for (size_t i = 0; i < values.size(); ++i) {
                const auto size = static_cast<double>(random.below(1000));
                const bool is_negative = std::numeric_limits<T>::is_signed && random.below(2) == 0;
                values[i] = static_cast<T>(is_negative ? -size : size);
                wanted[i / width] = std::max(wanted[i / width], size);
            }
            CHECK(sizes(values, width) == wanted);
        }
    }

    TEST_CASE("the least integers have the greatest size") {
        CHECK(sizes<int32_t>({std::numeric_limits<int32_t>::min(), 0}, 1) ==
              std::vector<double>{0x1p31, 0});
        CHECK(sizes<int64_t>({std::numeric_limits<int64_t>::min(), 5}, 2) ==
              std::vector<double>{0x1p63});
        CHECK(sizes<float>({-0.0F, -1e-45F}, 1) ==
              std::vector<double>{0, static_cast<double>(1e-45F)});
    }
}

// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/count_sketch.h"

#include <cmath>
#include <map>

#include <doctest/doctest.h>

#include "tests/seed.h"

TEST_SUITE("count_sketch") {
    using namespace weir;

    namespace {

    constexpr uint32_t kMany = 1U << 30;

    CountSketch sketch_of(uint32_t width, uint32_t depth, uint32_t count_max, uint64_t seed) {
        return std::move(CountSketch::make(width, depth, count_max, seed)).value();
    }

    }  // namespace

    TEST_CASE("no key is counted too few times, and few are counted many times too often") {
        WEIR_TEST_SEED(seed, 1);
        Random random(seed);
        constexpr uint32_t kWidth = 512;
        constexpr uint32_t kDepth = 3;
        CountSketch sketch = sketch_of(kWidth, kDepth, kMany, seed);
        std::map<uint64_t, uint32_t> counts;
        constexpr uint32_t kAll = 50'000;
        for (uint32_t i = 0; i < kAll; ++i) {
            // Some keys come often, most rarely.
            const uint64_t key = random.below(1 + random.below(5'000));
            const uint32_t estimate = sketch.add(key);
            REQUIRE(estimate >= ++counts[key]);
        }
        size_t far = 0;
        for (const auto& entry : counts) {
            const uint32_t estimate = sketch.estimate(entry.first);
            REQUIRE(estimate >= entry.second);
            far += static_cast<size_t>(estimate - entry.second >
                                       std::exp(1.0) / kWidth * static_cast<double>(kAll));
        }
        // Each is that far off with a probability of at most e^-depth.
        CHECK(static_cast<double>(far) < std::exp(-3.0) * static_cast<double>(counts.size()));
    }

    TEST_CASE("a sketch that is wide enough is exact, up to the greatest count") {
        CountSketch sketch = sketch_of(1U << 16, 4, 5, 1);
        for (uint32_t times = 1; times <= 8; ++times) {
            for (uint64_t key = 0; key < 100; ++key)
                CHECK(sketch.add(key) == std::min(times, 5U));
        }
        CHECK(sketch.estimate(1'000'000) == 0);
        sketch.prefetch(7);
    }

    TEST_CASE("sketches without counters, and too great ones, are refused") {
        CHECK(sketch_of(1, 1, 1, 1).bytes() == 4);
        CHECK(CountSketch::make(0, 1, 1, 1).code() == Errc::kInvalidArgument);
        CHECK(CountSketch::make(1, 0, 1, 1).code() == Errc::kInvalidArgument);
        CHECK(CountSketch::make(1, 1, 0, 1).code() == Errc::kInvalidArgument);
        CHECK(CountSketch::make(1, 17, 1, 1).code() == Errc::kInvalidArgument);
        CHECK(CountSketch::make(~0U, 2, 1, 1).code() == Errc::kInvalidArgument);
    }
}

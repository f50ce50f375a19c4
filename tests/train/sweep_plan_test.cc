// SPDX-License-Identifier: Apache-2.0
#include "lib/train/sweep_plan.h"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"

TEST_SUITE("sweep_plan") {
    using namespace weir;

    static std::vector<uint32_t> left_by(const SweepLimits& limits,
                                         const std::vector<uint32_t>& stamps) {
        SweepPlan plan = *SweepPlan::make(limits, 10);
        plan.count(stamps);
        plan.decide();
        std::vector<uint32_t> left;
        for (const uint32_t stamp : stamps) {
            if (!plan.choose(stamp)) left.push_back(stamp);
        }
        CHECK(plan.left() == 0);
        return left;
    }

    TEST_CASE("rows go by age, but not below the floor, and by number above the cap") {
        const std::vector<uint32_t> stamps{5, 1, 3, 3, 2, 9};
        CHECK(left_by({}, stamps) == stamps);
        CHECK(left_by({.before = 3}, stamps) == std::vector<uint32_t>{5, 3, 3, 9});
        CHECK(left_by({.before = 9, .rows_min = 5}, stamps) ==
              std::vector<uint32_t>{5, 3, 3, 2, 9});
        CHECK(left_by({.before = 9, .rows_min = 3}, stamps).size() == 3);
        CHECK(left_by({.bytes_max = 29}, stamps) == std::vector<uint32_t>{5, 9});
        CHECK(left_by({.before = 9, .bytes_max = 30}, stamps) == std::vector<uint32_t>{9});
        CHECK(left_by({.bytes_max = 1}, stamps).empty());
        CHECK(left_by({.before = 4}, {}).empty());
    }

    TEST_CASE("no more rows are chosen than were too many, whatever comes meanwhile") {
        SweepPlan plan = *SweepPlan::make({.before = 3}, 10);
        plan.count(std::vector<uint32_t>{1, 2, 3});
        plan.decide();
        CHECK(plan.cut() == 3);
        CHECK(plan.choose(2));
        CHECK_FALSE(plan.choose(2));  // only one had this stamp
        CHECK(plan.choose(1));
        CHECK_FALSE(plan.choose(1));
    }

    TEST_CASE("a floor above the cap is refused") {
        CHECK(SweepPlan::make({.rows_min = 4, .bytes_max = 39}, 10).code() ==
              Errc::kInvalidArgument);
        CHECK(SweepPlan::make({.rows_min = 4, .bytes_max = 40}, 10));
    }

    TEST_CASE("what stays has the greatest stamps, and is as much as the limits say") {
        WEIR_TEST_SEED(seed, 39);
        Random random(seed);
        for (int i = 0; i < 200; ++i) {
            std::vector<uint32_t> stamps(random.below(60));
            for (uint32_t& stamp : stamps)
                stamp = static_cast<uint32_t>(1 + random.below(20));
            SweepLimits limits{.before = static_cast<uint32_t>(random.below(25)),
                               .rows_min = random.below(40)};
            if (random.below(2) == 0) limits.bytes_max = 10 * (limits.rows_min + random.below(40));
            const std::vector<uint32_t> left = left_by(limits, stamps);
            std::vector<uint32_t> sorted = stamps;
            std::ranges::sort(sorted, std::greater<>());
            std::vector<uint32_t> kept = left;
            std::ranges::sort(kept, std::greater<>());
            CHECK(std::ranges::equal(kept, std::span(sorted).first(kept.size())));
            const auto young = static_cast<size_t>(std::ranges::count_if(
                stamps, [&](uint32_t stamp) { return stamp >= limits.before; }));
            size_t wanted = young;
            if (limits.bytes_max != 0) wanted = std::min<size_t>(wanted, limits.bytes_max / 10);
            wanted = std::min(stamps.size(), std::max<size_t>(wanted, limits.rows_min));
            CHECK(left.size() == wanted);
        }
    }
}

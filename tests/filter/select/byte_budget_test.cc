// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/byte_budget.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"

TEST_SUITE("byte_budget") {
    using namespace weir;

    TEST_CASE("a budget is full at first, fills with time, and no further than its burst") {
        ManualClock clock;
        ByteBudget budget(clock, 1000, 500);
        CHECK(budget.available_bytes() == 500);
        budget.spend(500);
        CHECK(budget.available_bytes() == 0);
        clock.advance(100 * kMillisecond);
        CHECK(budget.available_bytes() == 100);
        clock.advance(3600 * kSecond);
        CHECK(budget.available_bytes() == 500);
    }

    TEST_CASE("a debt is paid first") {
        ManualClock clock;
        ByteBudget budget(clock, 1000, 500);
        budget.spend(1500);
        clock.advance(kSecond);
        CHECK(budget.available_bytes() == 0);
        clock.advance(kMillisecond);
        CHECK(budget.available_bytes() == 1);
    }

    TEST_CASE("no byte is lost or made by rounding, however short the times are") {
        WEIR_TEST_SEED(seed, 1);
        Random random(seed);
        ManualClock clock;
        constexpr uint64_t kRate = 123'456'789;
        ByteBudget budget(clock, kRate, kRate);
        budget.spend(budget.available_bytes());
        const uint64_t begin_ns = clock.now_ns();
        uint64_t spent = 0;
        for (int i = 0; i < 100'000; ++i) {
            clock.advance(random.below(100));
            const uint64_t some = budget.available_bytes();
            budget.spend(some);
            spent += some;
        }
        const auto wanted = static_cast<uint64_t>(static_cast<double>(clock.now_ns() - begin_ns) *
                                                  static_cast<double>(kRate) / 1e9);
        CHECK(spent == wanted);
    }

    TEST_CASE("the greatest numbers do not overflow, and a clock that stands gives nothing") {
        ManualClock clock;
        ByteBudget budget(clock, ~uint64_t{0}, ~uint64_t{0});
        budget.spend(~uint64_t{0});
        CHECK(budget.available_bytes() == 0);
        clock.set(uint64_t{1} << 62);
        CHECK(budget.available_bytes() == ~uint64_t{0});
        clock.set(5);
        CHECK(budget.available_bytes() == ~uint64_t{0});
    }
}

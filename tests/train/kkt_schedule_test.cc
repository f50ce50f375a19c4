// SPDX-License-Identifier: Apache-2.0
#include "lib/train/kkt_schedule.h"

#include <string>

#include <doctest/doctest.h>

TEST_SUITE("kkt_schedule") {
    using weir::KktSchedule;

    static void end_pass(KktSchedule & schedule, uint64_t woken, uint64_t nonzero, bool whole) {
        if (schedule.is_judging()) schedule.judge(woken, nonzero);
        schedule.begin_next(whole);
    }

    /// 'A' for each pass over all features, '-' for others. Passes over all wake `woken` of 1000 weights.
    static std::string passes(KktSchedule & schedule, int count, uint64_t woken) {
        std::string kinds;
        for (int i = 0; i < count; ++i) {
            const bool is_whole = schedule.is_whole();
            kinds += is_whole ? 'A' : '-';
            end_pass(schedule, is_whole ? woken : 0, 1000, false);
        }
        return kinds;
    }

    TEST_CASE("passes over all features become rare while they find nothing") {
        KktSchedule schedule(2);
        CHECK(passes(schedule, 12, 0) == "A-A--A----A-");
        CHECK(passes(schedule, 200, 0).find(std::string(17, '-')) == std::string::npos);
        CHECK(passes(schedule, 200, 0).find(std::string(16, '-')) != std::string::npos);
    }

    TEST_CASE("every second pass is over all while these move many that were left out") {
        KktSchedule schedule(2);
        CHECK(passes(schedule, 8, 11) == "A-A-A-A-");
        CHECK(passes(schedule, 8, 10) == "A--A----");
        CHECK(passes(schedule, 5, 500) == "A--A-");
        CHECK(passes(schedule, 8, 500) == "A-A-A-A-");
    }

    TEST_CASE("the margin grows where features are let go too early, within its limits") {
        KktSchedule good(2);
        const double first = good.rest();
        CHECK(first == 2 * (1 - 0.125));
        passes(good, 100, 0);
        while (!good.is_whole())
            end_pass(good, 0, 1000, false);
        CHECK(good.rest() == 2 * (1 - 1.0 / 16));
        KktSchedule bad(2);
        passes(bad, 20, 999);
        CHECK(bad.is_whole());
        CHECK(bad.rest() == 1);
    }

    TEST_CASE("nothing comes to rest in a pass that leaves out features") {
        KktSchedule schedule(2);
        end_pass(schedule, 0, 10, false);
        CHECK_FALSE(schedule.is_whole());
        CHECK(schedule.rest() > 0);  // so that zeros say that they are awake
        CHECK(schedule.rest() < 1e-30);
    }

    TEST_CASE("a pass that may be the last is over all, whatever the schedule says") {
        KktSchedule schedule(2);
        passes(schedule, 40, 0);
        while (schedule.is_whole())
            end_pass(schedule, 0, 1000, false);
        end_pass(schedule, 0, 1000, true);
        CHECK(schedule.is_whole());
    }

    TEST_CASE("a lack of progress counts only behind some passes over all in a row") {
        KktSchedule schedule(2);
        CHECK(schedule.may_settle());  // nothing was ever left out
        end_pass(schedule, 0, 1000, false);
        CHECK_FALSE(schedule.may_settle());
        end_pass(schedule, 0, 1000, true);
        CHECK_FALSE(schedule.may_settle());
        end_pass(schedule, 0, 1000, true);
        CHECK_FALSE(schedule.may_settle());
        end_pass(schedule, 0, 1000, true);
        CHECK(schedule.may_settle());
        end_pass(schedule, 0, 1000, false);
        CHECK_FALSE(schedule.may_settle());
    }

    TEST_CASE("totals of a pass over all may come when the next one has begun") {
        KktSchedule schedule(2);
        schedule.begin_next(false);
        schedule.begin_next(false);
        CHECK(schedule.is_judging());
        schedule.begin_next(false);
        CHECK_FALSE(schedule.is_judging());
        schedule.judge(0, 1000);  // two passes leave out now
        schedule.begin_next(false);
        CHECK_FALSE(schedule.is_whole());
        schedule.begin_next(false);
        CHECK(schedule.is_whole());
        CHECK(schedule.rest() == 2 * (1 - 1.0 / 16));
    }

    TEST_CASE("without a penalty all passes are over all features") {
        KktSchedule schedule(0);
        CHECK(passes(schedule, 10, 0) == "AAAAAAAAAA");
        CHECK(schedule.rest() == 0);
        CHECK(schedule.may_settle());
    }
}

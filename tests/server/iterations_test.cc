// SPDX-License-Identifier: Apache-2.0
#include "lib/server/iterations.h"

#include <doctest/doctest.h>

TEST_SUITE("iterations") {
    using weir::Iterations;
    using Verdict = Iterations::Verdict;

    TEST_CASE("an iteration is complete when all parts of all workers have arrived") {
        Iterations iterations(2);
        iterations.admit(0, 2);
        CHECK_FALSE(iterations.arrived(0));
        iterations.admit(1, 1);
        CHECK_FALSE(iterations.arrived(1));
        iterations.admit(0, 2);
        CHECK(iterations.arrived(0));
        iterations.applied();
        CHECK(iterations.last_applied() == 1);
        CHECK(iterations.judge(2, 0, 1) == Verdict::kNow);
    }

    TEST_CASE("what comes too early waits, what comes too late or too often is refused") {
        Iterations iterations(2);
        CHECK(iterations.judge(2, 0, 1) == Verdict::kLater);
        CHECK(iterations.judge(1, 2, 1) == Verdict::kRefuse);
        CHECK(iterations.judge(1, 0, 0) == Verdict::kRefuse);
        iterations.admit(0, 1);
        CHECK(iterations.judge(1, 0, 1) == Verdict::kRefuse);
        CHECK(iterations.judge(1, 1, 2) == Verdict::kNow);
        iterations.admit(1, 2);
        CHECK(iterations.judge(1, 1, 3) == Verdict::kRefuse);
        CHECK(iterations.judge(0, 1, 1) == Verdict::kRefuse);
    }

    TEST_CASE("a part that is withdrawn may come again") {
        Iterations iterations(1);
        iterations.admit(0, 1);
        iterations.withdraw(0);
        CHECK(iterations.judge(1, 0, 1) == Verdict::kNow);
        iterations.admit(0, 1);
        CHECK(iterations.arrived(0));
    }
}

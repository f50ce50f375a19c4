// SPDX-License-Identifier: Apache-2.0
#include "lib/task/consistency.h"

#include <initializer_list>

#include <doctest/doctest.h>

TEST_SUITE("consistency") {
    using namespace weir;
    constexpr uint64_t kLast = ~uint64_t{0};

    TEST_CASE("sequential: all iterations before it must be finished") {
        const Consistency model = Consistency::sequential();
        CHECK(model == Consistency::bounded(0));
        CHECK(model.tau() == 0);
        CHECK(model.finished_before(1) == 0);
        CHECK(model.finished_before(2) == 1);
        CHECK(model.finished_before(kLast) == kLast - 1);
        CHECK(model.open_max() == 1);
    }

    TEST_CASE("bounded: iteration t needs 1 .. t - tau - 1") {
        const Consistency model = Consistency::bounded(4);
        CHECK(model.finished_before(0) == 0);
        CHECK(model.finished_before(4) == 0);
        CHECK(model.finished_before(5) == 0);
        CHECK(model.finished_before(6) == 1);
        CHECK(model.finished_before(100) == 95);
        CHECK(model.finished_before(kLast) == kLast - 5);
        CHECK(model.open_max() == 5);
    }

    TEST_CASE("the largest bounds and iterations do not overflow") {
        for (const uint64_t tau : {kLast, kLast - 1, kLast - 2}) {
            const Consistency model = Consistency::bounded(tau);
            CHECK(model.finished_before(0) == 0);
            CHECK(model.finished_before(1) == 0);
            CHECK(model.finished_before(tau) == 0);
            CHECK(model.finished_before(kLast) == (tau == kLast - 2 ? 1 : 0));
            CHECK(model.open_max() == (tau == kLast ? kLast : tau + 1));
        }
    }

    TEST_CASE("eventual: nothing must be finished") {
        const Consistency model = Consistency::eventual();
        CHECK(model.is_eventual());
        CHECK(model.finished_before(1) == 0);
        CHECK(model.finished_before(kLast) == 0);
        CHECK(model.open_max() == kLast);
        CHECK_FALSE(Consistency::bounded(kLast).is_eventual());
    }

    TEST_CASE("staleness counts the iterations that are missing") {
        CHECK(Staleness::of(5, 4) == 0);
        CHECK(Staleness::of(5, 2) == 2);
        CHECK(Staleness::of(5, 5) == 0);
        CHECK(Staleness::of(5, kLast) == 0);
        CHECK(Staleness::of(0, 0) == 0);
        CHECK(Staleness::of(1, 0) == 0);
        CHECK(Staleness::of(kLast, 0) == kLast - 1);
    }

    TEST_CASE("mean and maximum are of all pulls, and do not overflow") {
        Staleness staleness;
        CHECK(staleness.pulls() == 0);
        CHECK(staleness.mean() == 0);
        CHECK(staleness.max() == 0);
        staleness.count(5, 4);
        staleness.count(5, 1);
        Staleness other;
        other.count(10, 3);
        staleness.add(other);
        CHECK(staleness.pulls() == 3);
        CHECK(staleness.mean() == doctest::Approx(3));
        CHECK(staleness.max() == 6);
        Staleness extreme;
        for (int i = 0; i < 8; ++i)
            extreme.count(kLast, 0);
        CHECK(extreme.mean() == doctest::Approx(0x1p64));
        CHECK(extreme.max() == kLast - 1);
    }

    TEST_CASE("what the model allows is never staler than its bound") {
        for (const uint64_t tau : {uint64_t{0}, uint64_t{3}, kLast - 1}) {
            const Consistency model = Consistency::bounded(tau);
            for (const uint64_t t : {uint64_t{1}, uint64_t{2}, uint64_t{9}, kLast})
                CHECK(Staleness::of(t, model.finished_before(t)) <= tau);
        }
    }
}

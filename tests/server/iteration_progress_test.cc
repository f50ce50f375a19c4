// SPDX-License-Identifier: Apache-2.0
#include "lib/server/iteration_progress.h"

#include <doctest/doctest.h>

namespace weir {
namespace {

using Verdict = IterationProgress::Verdict;

/// One part, from its arrival to its effect; true if it was the last one.
bool take_part(IterationProgress& iterations, uint64_t iteration, uint32_t worker) {
    REQUIRE(iterations.judge(iteration, worker, 1) == Verdict::kNow);
    iterations.admit(iteration, worker, 1);
    iterations.arrived(iteration, worker);
    return iterations.complete();
}

}  // namespace

TEST_SUITE("iterations") {
    TEST_CASE("an iteration is complete when all parts of all workers have arrived") {
        IterationProgress iterations(2);
        REQUIRE(iterations.judge(1, 0, 2) == Verdict::kNow);
        iterations.admit(1, 0, 2);
        iterations.arrived(1, 0);
        CHECK_FALSE(iterations.complete());
        CHECK_FALSE(take_part(iterations, 1, 1));
        REQUIRE(iterations.judge(1, 0, 2) == Verdict::kNow);
        iterations.admit(1, 0, 2);
        iterations.arrived(1, 0);
        CHECK(iterations.complete());
        iterations.close();
        CHECK(iterations.last_closed() == 1);
        CHECK(iterations.first_open() == 2);
        CHECK(iterations.judge(2, 0, 1) == Verdict::kNow);
    }

    TEST_CASE("what comes too early waits, what comes too late or too often is refused") {
        IterationProgress iterations(2);
        CHECK(iterations.judge(1, 2, 1) == Verdict::kRefuse);
        CHECK(iterations.judge(1, 0, 0) == Verdict::kRefuse);
        REQUIRE(iterations.judge(1, 0, 1) == Verdict::kNow);
        iterations.admit(1, 0, 1);
        CHECK(iterations.judge(1, 0, 1) == Verdict::kRefuse);
        CHECK(iterations.judge(2, 0, 1) == Verdict::kLater);
        CHECK(iterations.judge(3, 0, 1) == Verdict::kLater);
        CHECK(iterations.judge(1, 1, 2) == Verdict::kNow);
        iterations.admit(1, 1, 2);
        CHECK(iterations.judge(1, 1, 3) == Verdict::kRefuse);
        CHECK(iterations.judge(0, 1, 1) == Verdict::kPast);
    }

    TEST_CASE("a worker that skips an iteration is refused, whatever the others do") {
        IterationProgress iterations(2);
        CHECK(iterations.judge(2, 0, 1) == Verdict::kSkips);
        CHECK(iterations.judge(1, 0, 1) == Verdict::kNow);
        CHECK(iterations.judge(3, 0, 1) == Verdict::kSkips);
        CHECK(iterations.judge(2, 0, 1) == Verdict::kLater);
        CHECK(iterations.judge(2, 1, 1) == Verdict::kSkips);
        CHECK(iterations.judge(~uint64_t{0}, 1, 1) == Verdict::kSkips);
        CHECK(iterations.last_seen(0) == 2);
        CHECK(iterations.last_seen(1) == 0);
    }

    TEST_CASE("a part that is withdrawn may come again") {
        IterationProgress iterations(1);
        REQUIRE(iterations.judge(1, 0, 1) == Verdict::kNow);
        iterations.admit(1, 0, 1);
        iterations.withdraw(1, 0);
        CHECK(take_part(iterations, 1, 0));
    }

    TEST_CASE("a part that fails fails its iteration, the first reason stays, the next is open") {
        IterationProgress iterations(2);
        CHECK_FALSE(take_part(iterations, 1, 0));
        CHECK_FALSE(iterations.failure_of(1).has_value());
        iterations.fail(1, {Errc::kNoMemory, 1});
        iterations.fail(1, {Errc::kOutOfRange, 0});
        REQUIRE(iterations.failure_of(1).has_value());
        CHECK(iterations.failure_of(1)->status == Errc::kNoMemory);
        CHECK(iterations.failure_of(1)->worker == 1);
        CHECK_FALSE(iterations.failure_of(2).has_value());
        CHECK(take_part(iterations, 1, 1));
        iterations.close();
        CHECK(iterations.failure_of(1)->status == Errc::kNoMemory);
        CHECK_FALSE(iterations.failure_of(2).has_value());
        CHECK_FALSE(take_part(iterations, 2, 0));
        CHECK(take_part(iterations, 2, 1));
    }

    TEST_CASE("so many failed iterations are remembered, and no more") {
        IterationProgress iterations(1);
        constexpr uint64_t kCount = IterationProgress::kFailuresMax + 10;
        for (uint64_t i = 1; i <= kCount; ++i) {
            CHECK(take_part(iterations, i, 0));
            iterations.fail(i, {Errc::kNoMemory, 0});
            iterations.close();
        }
        CHECK_FALSE(iterations.failure_of(kCount - IterationProgress::kFailuresMax).has_value());
        CHECK(iterations.failure_of(kCount - IterationProgress::kFailuresMax + 1).has_value());
        CHECK(iterations.failure_of(kCount).has_value());
    }

    TEST_CASE("what a lost worker has not pushed fails, what it has pushed counts") {
        IterationProgress iterations(3);
        CHECK_FALSE(take_part(iterations, 1, 2));
        iterations.lose(2);
        CHECK_FALSE(iterations.failure_of(1).has_value());
        REQUIRE(iterations.failure_of(2).has_value());
        CHECK(iterations.failure_of(2)->status == Errc::kPeerLost);
        CHECK(iterations.failure_of(2)->worker == 2);
        iterations.lose(1);
        CHECK(iterations.failure_of(1)->worker == 1);
    }

    TEST_CASE("parts of every open iteration are taken at once, of later ones they wait") {
        IterationProgress iterations(2, 3);
        CHECK(iterations.first_open() == 1);
        CHECK(iterations.last_open() == 3);
        for (const uint64_t i : {1, 2, 3})
            CHECK_FALSE(take_part(iterations, i, 0));
        CHECK(iterations.judge(4, 0, 1) == Verdict::kLater);
        CHECK(iterations.judge(6, 0, 1) == Verdict::kSkips);
        CHECK(iterations.judge(2, 1, 1) == Verdict::kSkips);
        CHECK(take_part(iterations, 1, 1));
        iterations.close();
        CHECK_FALSE(iterations.complete());
        CHECK(iterations.judge(1, 1, 1) == Verdict::kPast);
        CHECK(iterations.judge(4, 0, 1) == Verdict::kNow);
        CHECK(iterations.judge(5, 0, 1) == Verdict::kLater);
    }

    TEST_CASE("a later iteration that is complete waits for the ones before it") {
        IterationProgress iterations(1, 3);
        REQUIRE(iterations.judge(1, 0, 2) == Verdict::kNow);
        iterations.admit(1, 0, 2);
        CHECK_FALSE(take_part(iterations, 2, 0));
        CHECK_FALSE(take_part(iterations, 3, 0));
        iterations.arrived(1, 0);
        REQUIRE(iterations.judge(1, 0, 2) == Verdict::kNow);
        iterations.admit(1, 0, 2);
        iterations.arrived(1, 0);
        for (const uint64_t i : {1, 2, 3}) {
            CHECK(iterations.first_open() == i);
            REQUIRE(iterations.complete());
            iterations.close();
        }
        CHECK_FALSE(iterations.complete());
        CHECK(iterations.last_open() == 6);
    }

    TEST_CASE("nothing of a closed iteration is left when its room is used again") {
        IterationProgress iterations(2, 2);
        iterations.fail(1, {Errc::kNoMemory, 0});
        CHECK_FALSE(take_part(iterations, 1, 0));
        CHECK(take_part(iterations, 1, 1));
        iterations.close();
        CHECK_FALSE(iterations.failure_of(3).has_value());
        CHECK_FALSE(take_part(iterations, 2, 0));
        CHECK_FALSE(take_part(iterations, 3, 0));
        CHECK(take_part(iterations, 2, 1));
        iterations.close();
        CHECK_FALSE(iterations.complete());
        CHECK(iterations.judge(3, 1, 7) == Verdict::kNow);  // another number than before
    }

    TEST_CASE("a failure is that of its own iteration") {
        IterationProgress iterations(1, 3);
        iterations.fail(2, {Errc::kNoMemory, 0});
        CHECK_FALSE(iterations.failure_of(1).has_value());
        CHECK(iterations.failure_of(2)->status == Errc::kNoMemory);
        CHECK_FALSE(iterations.failure_of(3).has_value());
        for (const uint64_t i : {1, 2}) {
            CHECK(take_part(iterations, i, 0));
            iterations.close();
        }
        CHECK_FALSE(iterations.failure_of(1).has_value());
        CHECK(iterations.failure_of(2)->status == Errc::kNoMemory);
        CHECK_FALSE(iterations.failure_of(5).has_value());  // in the room of 2
    }

    TEST_CASE("after an iteration that a lost worker keeps open, none is closed: all have failed") {
        IterationProgress iterations(2, 4);
        CHECK_FALSE(take_part(iterations, 1, 1));
        REQUIRE(iterations.judge(2, 1, 2) == Verdict::kNow);
        iterations.admit(2, 1, 2);  // and its other part never comes
        CHECK_FALSE(take_part(iterations, 3, 1));
        iterations.lose(1);
        CHECK_FALSE(iterations.failure_of(1).has_value());
        for (const uint64_t i : {2, 3, 4, 5, 100}) {
            REQUIRE(iterations.failure_of(i).has_value());
            CHECK(iterations.failure_of(i)->status == Errc::kPeerLost);
            CHECK(iterations.failure_of(i)->worker == 1);
        }
        CHECK(iterations.failure_for(1, 1).has_value());
        CHECK(take_part(iterations, 1, 0));
        iterations.close();
        CHECK(iterations.failure_of(5).has_value());  // open now
    }

    TEST_CASE("a part of a worker that gave up changes no failure when it arrives late") {
        IterationProgress iterations(2);
        REQUIRE(iterations.judge(1, 1, 1) == Verdict::kNow);
        iterations.admit(1, 1, 1);
        iterations.lose(1);
        CHECK_FALSE(take_part(iterations, 1, 0));
        iterations.arrived(1, 1);
        REQUIRE(iterations.complete());
        CHECK(iterations.failure_of(1)->status == Errc::kPeerLost);
        iterations.close();
        CHECK(iterations.failure_of(1)->status == Errc::kPeerLost);
    }
}

}  // namespace weir

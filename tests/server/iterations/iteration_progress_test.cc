// SPDX-License-Identifier: Apache-2.0
#include "lib/server/iterations/iteration_progress.h"

#include <array>
#include <vector>

#include <doctest/doctest.h>

namespace weir {
namespace {

using Verdict = IterationProgress::Verdict;

constexpr PositionRange kLow{0, 999};
constexpr PositionRange kHigh{1000, ~uint64_t{0}};

/// Of a shard that is primary of the whole ring, with the workers 0 .. `workers` - 1 from the first
/// iteration on.
struct Closed {
    ClosedIterations its_closed;
};

struct Progress : Closed, IterationProgress {
    explicit Progress(uint32_t workers, uint32_t window = 1)
        : IterationProgress(its_closed, window) {
        restart(std::array{kLow, kHigh});
        std::vector<IterationMember> members;
        for (uint32_t worker = 0; worker < workers; ++worker)
            members.push_back({worker, 1});
        set_members(members);
    }

    /// One of the worker's parts of an iteration.
    void take(uint64_t iteration, uint32_t worker, uint32_t parts = 1) {
        REQUIRE(judge(iteration, worker, parts) == Verdict::kNow);
        REQUIRE(lacks(iteration, worker, parts));
        arrived(iteration, worker, parts);
    }

    /// All of them. True if the first open iteration is complete then.
    bool take_part(uint64_t iteration, uint32_t worker) {
        take(iteration, worker);
        return complete();
    }
};

}  // namespace

TEST_SUITE("iterations") {
    TEST_CASE("an iteration is complete when all parts of all workers have arrived") {
        Progress iterations(2);
        iterations.take(1, 0, 2);
        CHECK_FALSE(iterations.complete());
        CHECK_FALSE(iterations.take_part(1, 1));
        iterations.take(1, 0, 2);
        CHECK(iterations.complete());
        iterations.close();
        CHECK(iterations.last_closed() == 1);
        CHECK(iterations.first_open() == 2);
        CHECK(iterations.judge(2, 0, 1) == Verdict::kNow);
    }

    TEST_CASE("what comes too early waits, what comes too late or too often is refused") {
        Progress iterations(2);
        CHECK(iterations.judge(1, 2, 1) == Verdict::kRefuse);
        CHECK(iterations.judge(1, 0, 0) == Verdict::kRefuse);
        CHECK(iterations.judge(1, 0, IterationProgress::kPartsMax + 1) == Verdict::kRefuse);
        iterations.take(1, 0);
        CHECK_FALSE(iterations.lacks(1, 0, 1));
        CHECK(iterations.judge(2, 0, 1) == Verdict::kLater);
        CHECK(iterations.judge(3, 0, 1) == Verdict::kLater);
        iterations.take(1, 1, 2);
        CHECK_FALSE(iterations.lacks(1, 1, 3));
        CHECK(iterations.lacks(1, 1, 2));
    }

    TEST_CASE("a worker that skips an iteration is refused, whatever the others do") {
        Progress iterations(2);
        CHECK(iterations.judge(2, 0, 1) == Verdict::kSkips);
        CHECK(iterations.judge(1, 0, 1) == Verdict::kNow);
        CHECK(iterations.judge(3, 0, 1) == Verdict::kSkips);
        CHECK(iterations.judge(2, 0, 1) == Verdict::kLater);
        CHECK(iterations.judge(2, 1, 1) == Verdict::kSkips);
        CHECK(iterations.judge(~uint64_t{0}, 1, 1) == Verdict::kSkips);
        CHECK(iterations.last_seen(0) == 2);
        CHECK(iterations.last_seen(1) == 0);
    }

    TEST_CASE("a part that fails fails its iteration, the first reason stays, the next is open") {
        Progress iterations(2);
        CHECK_FALSE(iterations.take_part(1, 0));
        CHECK_FALSE(iterations.failure_of(1).has_value());
        REQUIRE(iterations.judge(1, 1, 1) == Verdict::kNow);
        iterations.fail(1, {Errc::kNoMemory, 1});
        iterations.fail(1, {Errc::kOutOfRange, 0});
        REQUIRE(iterations.failure_of(1).has_value());
        CHECK(iterations.failure_of(1)->status == Errc::kNoMemory);
        CHECK(iterations.failure_of(1)->worker == 1);
        CHECK_FALSE(iterations.failure_of(2).has_value());
        CHECK(iterations.complete());  // nothing more of worker 1 is waited for
        iterations.close();
        CHECK(iterations.failure_of(1)->status == Errc::kNoMemory);
        CHECK_FALSE(iterations.failure_of(2).has_value());
        CHECK_FALSE(iterations.take_part(2, 0));
        CHECK(iterations.take_part(2, 1));
    }

    TEST_CASE("so many failed iterations are remembered, and no more") {
        Progress iterations(1);
        constexpr uint64_t kCount = ClosedState::kRemembered + 10;
        for (uint64_t i = 1; i <= kCount; ++i) {
            CHECK(iterations.take_part(i, 0));
            iterations.fail(i, {Errc::kNoMemory, 0});
            iterations.close();
        }
        CHECK_FALSE(iterations.failure_of(kCount - ClosedState::kRemembered).has_value());
        CHECK(iterations.failure_of(kCount - ClosedState::kRemembered + 1).has_value());
        CHECK(iterations.failure_of(kCount).has_value());
    }

    TEST_CASE("what a lost worker has not pushed fails, what it has pushed counts") {
        Progress iterations(3);
        CHECK_FALSE(iterations.take_part(1, 2));
        iterations.lose(2);
        CHECK_FALSE(iterations.failure_of(1).has_value());
        REQUIRE(iterations.failure_of(2).has_value());
        CHECK(iterations.failure_of(2)->status == Errc::kPeerLost);
        CHECK(iterations.failure_of(2)->worker == 2);
        iterations.lose(1);
        CHECK(iterations.failure_of(1)->worker == 1);
    }

    TEST_CASE("parts of every open iteration are taken at once, of later ones they wait") {
        Progress iterations(2, 3);
        CHECK(iterations.first_open() == 1);
        CHECK(iterations.last_open() == 3);
        for (const uint64_t i : {1, 2, 3})
            CHECK_FALSE(iterations.take_part(i, 0));
        CHECK(iterations.judge(4, 0, 1) == Verdict::kLater);
        CHECK(iterations.judge(6, 0, 1) == Verdict::kSkips);
        CHECK(iterations.judge(2, 1, 1) == Verdict::kSkips);
        CHECK(iterations.take_part(1, 1));
        iterations.close();
        CHECK_FALSE(iterations.complete());
        CHECK(iterations.judge(1, 1, 1) == Verdict::kPast);
        CHECK(iterations.judge(4, 0, 1) == Verdict::kNow);
        CHECK(iterations.judge(5, 0, 1) == Verdict::kLater);
    }

    TEST_CASE("a later iteration that is complete waits for the ones before it") {
        Progress iterations(1, 3);
        iterations.take(1, 0, 2);
        CHECK_FALSE(iterations.take_part(2, 0));
        CHECK_FALSE(iterations.take_part(3, 0));
        iterations.take(1, 0, 2);
        for (const uint64_t i : {1, 2, 3}) {
            CHECK(iterations.first_open() == i);
            REQUIRE(iterations.complete());
            iterations.close();
        }
        CHECK_FALSE(iterations.complete());
        CHECK(iterations.last_open() == 6);
    }

    TEST_CASE("nothing of a closed iteration is left when its room is used again") {
        Progress iterations(2, 2);
        REQUIRE(iterations.judge(1, 0, 1) == Verdict::kNow);
        iterations.fail(1, {Errc::kNoMemory, 0});
        CHECK(iterations.take_part(1, 1));
        iterations.close();
        CHECK_FALSE(iterations.failure_of(3).has_value());
        CHECK_FALSE(iterations.take_part(2, 0));
        CHECK_FALSE(iterations.take_part(3, 0));
        CHECK(iterations.take_part(2, 1));
        iterations.close();
        CHECK_FALSE(iterations.complete());
        CHECK(iterations.judge(3, 1, 7) == Verdict::kNow);  // another number than before
    }

    TEST_CASE("a failure is that of its own iteration") {
        Progress iterations(1, 3);
        REQUIRE(iterations.judge(1, 0, 1) == Verdict::kNow);
        REQUIRE(iterations.judge(2, 0, 1) == Verdict::kNow);
        iterations.fail(2, {Errc::kNoMemory, 0});
        CHECK_FALSE(iterations.failure_of(1).has_value());
        CHECK(iterations.failure_of(2)->status == Errc::kNoMemory);
        CHECK_FALSE(iterations.failure_of(3).has_value());
        CHECK(iterations.take_part(1, 0));
        iterations.close();
        CHECK(iterations.complete());
        iterations.close();
        CHECK_FALSE(iterations.failure_of(1).has_value());
        CHECK(iterations.failure_of(2)->status == Errc::kNoMemory);
        CHECK_FALSE(iterations.failure_of(5).has_value());  // in the room of 2
    }

    TEST_CASE("after an iteration that a lost worker keeps open, none is closed: all have failed") {
        Progress iterations(2, 4);
        CHECK_FALSE(iterations.take_part(1, 1));
        iterations.take(2, 1, 2);  // and its other part never comes
        CHECK_FALSE(iterations.take_part(3, 1));
        iterations.lose(1);
        CHECK_FALSE(iterations.failure_of(1).has_value());
        for (const uint64_t i : {2, 3, 4, 5, 100}) {
            REQUIRE(iterations.failure_of(i).has_value());
            CHECK(iterations.failure_of(i)->status == Errc::kPeerLost);
            CHECK(iterations.failure_of(i)->worker == 1);
        }
        CHECK(iterations.failure_for(1, 1).has_value());
        CHECK(iterations.take_part(1, 0));
        iterations.close();
        CHECK(iterations.failure_of(5).has_value());  // open now
    }

    TEST_CASE("a part of a worker that gave up changes no failure when it arrives late") {
        Progress iterations(2);
        iterations.lose(1);
        CHECK_FALSE(iterations.take_part(1, 0));
        CHECK(iterations.take_part(1, 1));
        CHECK(iterations.failure_of(1)->status == Errc::kPeerLost);
        iterations.close();
        CHECK(iterations.failure_of(1)->status == Errc::kPeerLost);
    }

    TEST_CASE("a worker is waited for from its first iteration on, until it is not in the view") {
        Progress iterations(1, 2);
        CHECK(iterations.take_part(1, 0));
        iterations.close();
        iterations.set_members(std::array{IterationMember{0, 1}, IterationMember{7, 4}});
        CHECK(iterations.judge(3, 7, 1) == Verdict::kRefuse);  // before its first
        CHECK(iterations.waits_for(3, 0));
        CHECK_FALSE(iterations.waits_for(3, 7));
        CHECK(iterations.judge(5, 7, 1) == Verdict::kSkips);
        CHECK(iterations.judge(4, 7, 1) == Verdict::kLater);
        for (const uint64_t i : {2, 3}) {
            CHECK(iterations.take_part(i, 0));
            iterations.close();
        }
        CHECK_FALSE(iterations.take_part(4, 0));
        CHECK_FALSE(iterations.take_part(5, 0));
        CHECK_FALSE(iterations.waits_for(4, 0));
        CHECK(iterations.waits_for(4, 7));
        iterations.take(4, 7, 2);  // and not its other part
        CHECK_FALSE(iterations.complete());
        iterations.set_members(std::array{IterationMember{0, 1}});
        CHECK(iterations.complete());
        CHECK(iterations.judge(4, 7, 2) == Verdict::kRefuse);
        iterations.close();
        CHECK(iterations.complete());
        iterations.close();
        CHECK_FALSE(iterations.complete());
    }

    TEST_CASE(
        "what a worker that is gone has withdrawn fails, also what opens or comes here later") {
        Progress iterations(1, 2);
        iterations.take(1, 0);
        iterations.set_withdrawals({{.worker = 5, .first = 1, .last = 3}});
        CHECK(iterations.failure_of(1)->status == Errc::kCancelled);
        CHECK(iterations.failure_of(1)->worker == 5);
        CHECK(iterations.complete());  // it waits for nobody else
        iterations.close();
        CHECK(iterations.failure_of(3)->worker == 5);  // open since then
        iterations.restart(std::array{kHigh});
        CHECK(iterations.failure_of(2)->worker == 5);
        CHECK(iterations.failure_of(3)->worker == 5);
        for (const uint64_t i : {2, 3}) {
            CHECK(iterations.take_part(i, 0));
            iterations.close();
        }
        CHECK_FALSE(iterations.failure_of(4));
        CHECK(iterations.failure_of(3)->worker == 5);
    }

    TEST_CASE("without members no iteration ends, and those before the first member's are empty") {
        Progress iterations(0, 3);
        CHECK_FALSE(iterations.complete());
        iterations.set_members(std::array{IterationMember{3, 1'000'000}, IterationMember{4, 9}});
        REQUIRE(iterations.complete());
        CHECK(iterations.close_empty());
        CHECK(iterations.last_closed() == 8);
        CHECK_FALSE(iterations.complete());
        CHECK_FALSE(iterations.close_empty());
        CHECK(iterations.take_part(9, 4));
    }

    TEST_CASE("what came of a worker that is gone counts") {
        Progress iterations(2, 2);
        CHECK_FALSE(iterations.take_part(1, 1));
        iterations.set_members(std::array{IterationMember{0, 3}});
        REQUIRE(iterations.complete());
        CHECK_FALSE(iterations.close_empty());  // worker 1's part is in it: its rule runs
        iterations.close();
        CHECK(iterations.complete());
    }

    TEST_CASE("the loss of a worker ends with its place in the view") {
        Progress iterations(2, 2);
        iterations.lose(1);
        CHECK(iterations.failure_of(9).has_value());
        iterations.set_members(std::array{IterationMember{0, 1}});
        CHECK(iterations.failure_of(1).has_value());  // it was answered so
        CHECK_FALSE(iterations.failure_of(9).has_value());
        CHECK(iterations.take_part(1, 0));
        iterations.close();
        CHECK(iterations.failure_of(1)->worker == 1);
    }

    TEST_CASE("no iteration is closed from that on that was named to the manager") {
        Progress iterations(1, 2);
        CHECK(iterations.hold() == 3);
        for (const uint64_t i : {1, 2}) {
            CHECK(iterations.take_part(i, 0));
            iterations.close();
        }
        CHECK_FALSE(iterations.is_last(3, 0, 1));
        CHECK_FALSE(iterations.take_part(3, 0));
        CHECK(iterations.hold() == 3);  // the promise stays, however often it is asked for
        iterations.release();
        CHECK(iterations.complete());
    }

    TEST_CASE("an iteration that is closed somewhere is not named, though it is above the window") {
        Progress iterations(1);
        iterations.closed().set({kHigh, {3, {}}});
        iterations.restart(std::array{kLow, kHigh});
        CHECK(iterations.last_open() == 1);
        CHECK(iterations.hold() == 4);
        for (const uint64_t i : {1, 2, 3}) {
            CHECK(iterations.take_part(i, 0));
            iterations.close();
        }
        CHECK_FALSE(iterations.take_part(4, 0));
    }

    TEST_CASE("the window counts from the segment that is furthest behind") {
        Progress iterations(2, 2);
        iterations.restart(std::array{kHigh});
        iterations.closed().set({kLow, {1, {{1, {Errc::kNoMemory, 5}}}}});
        for (const uint64_t i : {1, 2}) {
            iterations.take(i, 0);
            CHECK(iterations.take_part(i, 1));
            iterations.close();
        }
        iterations.take(3, 0, 7);
        iterations.restart(std::array{kLow, kHigh});
        CHECK(iterations.last_closed() == 1);
        CHECK(iterations.last_open() == 3);
        CHECK(iterations.closed().highest() == 2);
        CHECK(iterations.failure_of(1)->worker == 5);
        CHECK(iterations.judge(3, 0, 1) == Verdict::kSkips);  // it says iteration 2 again before
        iterations.take(2, 0);
        iterations.take(3, 0);  // another number of parts than before
        CHECK(iterations.take_part(2, 1));
        iterations.close();
        CHECK(iterations.last_closed() == 2);
        CHECK(iterations.take_part(3, 1));
    }

    TEST_CASE("when all begins anew, a lost worker is still lost") {
        Progress iterations(2, 2);
        CHECK_FALSE(iterations.take_part(1, 1));
        iterations.lose(1);
        CHECK_FALSE(iterations.failure_of(1).has_value());
        iterations.restart(std::array{kLow});
        CHECK(iterations.failure_of(1)->worker == 1);  // its part will not come again
    }

    TEST_CASE("who leaves when all has ended does not hide the end from the others") {
        const std::vector<IterationProgress::Withdrawal> withdrawn{
            {.worker = 1, .first = 1, .last = 2}};
        Progress early(2, 2);
        early.set_withdrawals(withdrawn);
        CHECK(early.failure_of(1)->status == Errc::kCancelled);
        early.end({Errc::kReassigned});
        Progress late(2, 2);
        late.end({Errc::kReassigned});
        late.set_withdrawals(withdrawn);
        for (Progress* const one : {&early, &late}) {
            CHECK(one->failure_of(1)->status == Errc::kReassigned);
            one->restart(std::array{kLow});  // a segment has another primary
            CHECK(one->failure_of(1)->status == Errc::kReassigned);
            CHECK(one->failure_of(2)->status == Errc::kReassigned);
        }
    }
}

}  // namespace weir

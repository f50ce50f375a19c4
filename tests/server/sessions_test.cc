// SPDX-License-Identifier: Apache-2.0
/// \file
/// Who is connected to a shard, how much of each may wait, and who sends no more.

#include "lib/server/requests/sessions.h"

#include <initializer_list>
#include <map>
#include <vector>

#include <doctest/doctest.h>

namespace weir::test {
namespace {

std::vector<ViewWorker> workers_of(std::initializer_list<uint32_t> numbers) {
    std::vector<ViewWorker> workers;
    for (const uint32_t number : numbers)
        workers.push_back({number, number, 1});
    return workers;
}

std::vector<ViewWorker> first_workers(uint32_t count) {
    std::vector<ViewWorker> workers;
    for (uint32_t number = 0; number < count; ++number)
        workers.push_back({number, number, 1});
    return workers;
}

constexpr uint64_t kPass = 4711;

/// As the manager tells it: who the workers are, then the view.
std::vector<transport::ConnectionId> apply_view(Sessions& sessions,
                                                const std::vector<ViewWorker>& workers,
                                                uint32_t next_worker) {
    for (const ViewWorker& worker : workers)
        (void)sessions.receive_pass(worker.number, kPass);
    return sessions.apply_view(workers, next_worker);
}

}  // namespace

TEST_SUITE("sessions") {
    TEST_CASE("a connection is a worker once it has said so, until it is closed") {
        Sessions sessions(1 << 20);
        CHECK(sessions.empty());
        CHECK(apply_view(sessions, first_workers(3), 3).empty());
        CHECK(sessions.find(7) == nullptr);
        sessions.open(7);
        REQUIRE(sessions.find(7) != nullptr);
        CHECK_FALSE(sessions.find(7)->known);
        CHECK_FALSE(sessions.is_connected(0));
        CHECK(sessions.hello(*sessions.find(7), {2, 0, kPass}) == Sessions::Hello::kWelcome);
        CHECK(sessions.find(7)->known);
        CHECK(sessions.find(7)->worker == 2);
        CHECK(sessions.is_connected(2));
        CHECK(sessions.close(7) == 2U);
        CHECK(sessions.find(7) == nullptr);
        CHECK_FALSE(sessions.is_connected(2));
        CHECK_FALSE(sessions.close(7).has_value());
        CHECK(sessions.empty());
    }

    TEST_CASE("a number that is taken, or that the job does not have, is refused") {
        Sessions sessions(1 << 20);
        CHECK(apply_view(sessions, first_workers(2), 2).empty());
        for (const transport::ConnectionId connection : {1, 2, 3})
            sessions.open(connection);
        CHECK(sessions.hello(*sessions.find(1), {1, 0, kPass}) == Sessions::Hello::kWelcome);
        CHECK(sessions.hello(*sessions.find(2), {1, 0, kPass}) == Sessions::Hello::kOld);
        const uint64_t beyond = 2 + ViewLimits::kWorkersMax;
        CHECK(sessions.hello(*sessions.find(2), {beyond, 0, kPass}) ==
              Sessions::Hello::kNoSuchWorker);
        CHECK(sessions.hello(*sessions.find(2), {~uint64_t{0}, 0, kPass}) ==
              Sessions::Hello::kNoSuchWorker);
        CHECK_FALSE(sessions.find(2)->known);
        CHECK_FALSE(sessions.close(2).has_value());  // it had no worker
        CHECK(sessions.close(1) == 1U);
        CHECK(sessions.hello(*sessions.find(3), {1, 0, kPass}) == Sessions::Hello::kWelcome);
    }

    TEST_CASE("hellos that come before the view are judged by it") {
        Sessions sessions(1 << 20);
        for (const transport::ConnectionId connection : {1, 2, 3})
            sessions.open(connection);
        const uint64_t largest = 0xFFFF'FFFE;
        CHECK(sessions.hello(*sessions.find(1), {1, 0, kPass}) == Sessions::Hello::kWelcome);
        CHECK(sessions.hello(*sessions.find(2), {largest, 0, kPass}) == Sessions::Hello::kWelcome);
        CHECK(sessions.hello(*sessions.find(3), {largest + 1, 0, kPass}) ==
              Sessions::Hello::kNoSuchWorker);
        CHECK(apply_view(sessions, first_workers(2), 2) == std::vector<transport::ConnectionId>{2});
        CHECK_FALSE(sessions.close(2).has_value());
        CHECK(sessions.close(1) == 1U);
    }

    TEST_CASE("the highest hello is the worker's, and a lower one is refused") {
        Sessions sessions(1 << 20);
        CHECK(apply_view(sessions, first_workers(2), 2).empty());
        for (const transport::ConnectionId connection : {1, 2, 3, 4})
            sessions.open(connection);
        CHECK(sessions.hello(*sessions.find(1), {1, 1, kPass}) == Sessions::Hello::kWelcome);
        CHECK(sessions.others(*sessions.find(1)).empty());
        CHECK(sessions.hello(*sessions.find(2), {1, 3, kPass}) == Sessions::Hello::kWelcome);
        CHECK(sessions.others(*sessions.find(2)) == std::vector<transport::ConnectionId>{1});
        CHECK(sessions.close(1) == 1U);
        CHECK(sessions.is_connected(1));
        CHECK(sessions.hello(*sessions.find(3), {1, 2, kPass}) ==
              Sessions::Hello::kOld);  // it came late
        CHECK(sessions.close(2) == 1U);
        CHECK(sessions.hello(*sessions.find(3), {1, 2, kPass}) == Sessions::Hello::kOld);
        CHECK(sessions.hello(*sessions.find(4), {1, 4, kPass}) == Sessions::Hello::kWelcome);
    }

    TEST_CASE("each worker's waiting requests are bounded, and a failed addition adds nothing") {
        constexpr size_t kBytes = Sessions::kWaitingBytes;
        Sessions sessions(3 * kBytes);
        CHECK(apply_view(sessions, first_workers(2), 2).empty());
        sessions.open(1);
        sessions.open(2);
        Session& first = *sessions.find(1);
        CHECK(sessions.add_waiting(first, kBytes));
        CHECK_FALSE(sessions.add_waiting(first, 1));
        CHECK(first.waiting_bytes == 2 * kBytes);
        CHECK(sessions.add_waiting(*sessions.find(2), 2 * kBytes));  // another one's share
        CHECK(sessions.add_waiting(first, 0));
        CHECK(first.waiting_bytes == 3 * kBytes);
        Sessions::end_waiting(first, 0);
        Sessions::end_waiting(first, kBytes);
        CHECK(first.waiting_bytes == 0);
    }

    TEST_CASE("requests that wait for an iteration leave half of the room to others") {
        constexpr size_t kBytes = Sessions::kWaitingBytes;
        Sessions sessions(4 * kBytes);
        CHECK(apply_view(sessions, first_workers(1), 1).empty());
        sessions.open(1);
        Session& session = *sessions.find(1);
        CHECK(sessions.add_deferred(session, kBytes));
        CHECK_FALSE(sessions.add_deferred(session, 0));
        CHECK(sessions.add_waiting(session, kBytes));
        CHECK_FALSE(sessions.add_waiting(session, 0));
        Sessions::end_deferred(session, kBytes);
        Sessions::end_waiting(session, kBytes);
        CHECK(session.deferred_bytes == 0);
        CHECK(session.waiting_bytes == 2 * kBytes);
        CHECK(sessions.add_waiting(session, kBytes));
        CHECK_FALSE(sessions.add_deferred(session, 0));  // nor more than there is for all
    }

    TEST_CASE("a worker that sends no more is remembered while it is in the view") {
        Sessions sessions(1 << 20);
        CHECK(apply_view(sessions, first_workers(3), 3).empty());
        sessions.open(1);
        CHECK(sessions.hello(*sessions.find(1), {1, 0, kPass}) == Sessions::Hello::kWelcome);
        sessions.leaves(1);
        for (const uint64_t worker : {1U, 2U, 3U, ~0U})
            sessions.lose(worker);
        CHECK_FALSE(sessions.is_lost(0));
        CHECK(sessions.is_lost(1));
        CHECK(sessions.is_lost(2));
        CHECK_FALSE(sessions.is_lost(3));
        CHECK(sessions.is_connected(1));
        CHECK(sessions.close(1) == 1U);
        CHECK(sessions.is_lost(1));
        CHECK(apply_view(sessions, workers_of({0, 1}), 3).empty());
        CHECK(sessions.is_lost(1));
        CHECK(sessions.is_leaving(1));
        CHECK_FALSE(sessions.is_lost(2));
    }

    TEST_CASE(
        "who is gone by a view is closed and refused, who comes by a later one waits for it") {
        Sessions sessions(1 << 20);
        CHECK(apply_view(sessions, first_workers(2), 2).empty());
        for (const transport::ConnectionId connection : {1, 2, 3, 4})
            sessions.open(connection);
        CHECK(sessions.hello(*sessions.find(1), {1, 5, kPass}) == Sessions::Hello::kWelcome);
        CHECK(sessions.hello(*sessions.find(2), {2, 5, kPass}) == Sessions::Hello::kWelcome);
        CHECK(sessions.find(1)->is_member);
        CHECK_FALSE(sessions.find(2)->is_member);
        CHECK_FALSE(sessions.is_member(2));
        CHECK(apply_view(sessions, workers_of({0, 2}), 3) ==
              std::vector<transport::ConnectionId>{1});
        CHECK(sessions.find(2)->is_member);
        CHECK_FALSE(sessions.close(1).has_value());
        CHECK(sessions.hello(*sessions.find(3), {1, 6, kPass}) == Sessions::Hello::kGone);
        CHECK(sessions.hello(*sessions.find(3), {2, 4, kPass}) == Sessions::Hello::kOld);
        CHECK(sessions.close(2) == 2U);
        CHECK(sessions.hello(*sessions.find(3), {2, 4, kPass}) == Sessions::Hello::kOld);
        // Of numbers that nobody was given, nothing stays.
        CHECK(sessions.hello(*sessions.find(4), {9, 5, kPass}) == Sessions::Hello::kWelcome);
        CHECK_FALSE(sessions.close(4).has_value());
        CHECK(sessions.hello(*sessions.find(3), {9, 1, kPass}) == Sessions::Hello::kWelcome);
    }

    TEST_CASE("who says that it is a worker proves it, as soon as the pass is known") {
        using Hello = Sessions::Hello;
        Sessions sessions(1 << 20);
        for (const transport::ConnectionId connection : {1, 2, 3, 4, 5})
            sessions.open(connection);
        const uint64_t highest = ~uint64_t{0};
        CHECK(sessions.hello(*sessions.find(1), {0, highest, kPass + 1}) == Hello::kWelcome);
        CHECK(sessions.hello(*sessions.find(2), {0, 3, kPass}) == Hello::kWelcome);
        CHECK(sessions.hello(*sessions.find(3), {0, 2, kPass}) == Hello::kWelcome);
        CHECK(sessions.others(*sessions.find(2)).empty());  // nothing is proven
        CHECK_FALSE(sessions.is_connected(0));
        std::map<transport::ConnectionId, Hello> verdicts;
        for (const Sessions::Judged& judged : sessions.receive_pass(0, kPass))
            verdicts[judged.connection] = judged.verdict;
        CHECK(verdicts.size() == 3);
        CHECK(verdicts[1] == Hello::kFalse);
        CHECK(verdicts[2] == Hello::kWelcome);
        CHECK(verdicts[3] == Hello::kOld);
        CHECK(sessions.receive_pass(0, kPass + 1).empty());  // the first one counts
        for (const transport::ConnectionId connection : {1, 3})
            CHECK_FALSE(sessions.close(connection).has_value());
        CHECK(sessions.is_connected(0));
        CHECK_FALSE(sessions.find(2)->is_member);
        CHECK(sessions.apply_view(first_workers(1), 1).empty());
        CHECK(sessions.find(2)->is_member);
        CHECK(sessions.hello(*sessions.find(4), {0, highest, kPass + 1}) == Hello::kFalse);
        CHECK(sessions.others(*sessions.find(2)).empty());
        CHECK(sessions.hello(*sessions.find(5), {0, 4, kPass}) == Hello::kWelcome);
        CHECK(sessions.others(*sessions.find(5)) == std::vector<transport::ConnectionId>{2});
    }

    TEST_CASE("a worker of the view whose pass was never told is nobody") {
        Sessions sessions(1 << 20);
        sessions.open(1);
        sessions.open(2);
        CHECK(sessions.hello(*sessions.find(1), {0, 1, kPass}) == Sessions::Hello::kWelcome);
        CHECK(sessions.apply_view(first_workers(1), 1) == std::vector<transport::ConnectionId>{1});
        CHECK(sessions.hello(*sessions.find(2), {0, 1, kPass}) == Sessions::Hello::kNoSuchWorker);
    }

    TEST_CASE("no more than so many workers are waited for that are in no view") {
        Sessions sessions(1 << 20);
        CHECK(apply_view(sessions, first_workers(3), 3).empty());
        for (transport::ConnectionId i = 1; i <= Sessions::kUnprovenMax + 1; ++i) {
            sessions.open(i);
            const bool fits = i <= Sessions::kUnprovenMax;
            CHECK(sessions.hello(*sessions.find(i), {100 + i, 0, kPass}) ==
                  (fits ? Sessions::Hello::kWelcome : Sessions::Hello::kNoSuchWorker));
        }
        const transport::ConnectionId last = Sessions::kUnprovenMax + 1;
        CHECK(sessions.hello(*sessions.find(last), {1, 0, kPass}) == Sessions::Hello::kWelcome);
    }
}

}  // namespace weir::test

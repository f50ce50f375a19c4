// SPDX-License-Identifier: Apache-2.0
/// \file
/// Calls that wait for other calls, on simulated time.

#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/worker/table.h"
#include "tests/worker/task_cluster.h"

namespace weir::test {

TEST_SUITE("client_tasks") {
    TEST_CASE("a call starts after what it names has finished, and reads its values then") {
        TaskCluster job;
        REQUIRE(job.finish(0, job.push(1)).has_value());
        REQUIRE(job.finish(0, job.push(1)).has_value());
        std::array<double, 1> moved{-1};
        const std::array<uint64_t, 1> from{1};
        const std::array<uint64_t, 1> to{2};
        ClientCore& client = job.client();
        const auto pull =
            client.pull(job.table, from, std::as_writable_bytes(std::span(moved)), {});
        const std::array<TaskId, 1> after{client.name_task(pull)};
        const auto push =
            client.push(job.table, to, std::as_bytes(std::span(moved)), {.after = after});
        CHECK_FALSE(client.done(push));
        CHECK(job.finish(0, push).has_value());
        CHECK(client.done(pull));
        CHECK(client.take(pull).has_value());
        CHECK(job.value(2) == 2);
        (void)client.poll();
        CHECK(client.graph().count() == 0);
    }

    TEST_CASE("what has ended is not waited for, whether it was taken or not") {
        TaskCluster job;
        const auto first = job.push(1);
        const TaskId id = job.name(first);
        REQUIRE(job.run_until([&] { return job.client().done(first); }));
        const auto second = job.push_after(2, {id});
        CHECK(job.finish(0, first).has_value());
        const auto third = job.push_after(3, {id, kNoTask, id});
        CHECK(job.finish(0, third).has_value());
        CHECK(job.finish(0, second).has_value());
        CHECK(job.client().name_task(first) == kNoTask);
        CHECK(job.tasks_left() == 0);
    }

    TEST_CASE("a call that is not named, nor names any, is no task of the graph") {
        TaskCluster job;
        const auto push = job.push(1);
        CHECK(job.tasks_left() == 0);
        const TaskId id = job.name(push);
        CHECK(id.number == 1);
        CHECK(id == job.name(push));
        CHECK(job.client().graph().count() == 1);
        CHECK(job.finish(0, push).has_value());
    }

    TEST_CASE("a failed dependency fails what waits for it, with the first cause") {
        TaskCluster job(2);
        const auto late = job.failing();
        const TaskId id = job.name(late);
        const auto second = job.push_after(11, {id});
        const auto third = job.push_after(12, {job.name(second)});
        const auto both = job.push_after(13, {job.name(third), id});
        check_failed(job.finish(0, third), Errc::kDeadline, "task 1 of client 0 failed: ");
        CHECK(job.client().done(second));
        CHECK(job.client().done(both));
        const auto fourth = job.push_after(14, {id});  // nobody has taken the error yet
        CHECK(job.client().done(fourth));
        check_failed(job.client().take(fourth), Errc::kDeadline, "task 1 of client 0 failed: ");
        check_failed(job.client().take(second), Errc::kDeadline, "task 1 of client 0 failed: ");
        check_failed(job.client().take(both), Errc::kDeadline, "task 1 of client 0 failed: ");
        check_failed(job.client().take(late), Errc::kDeadline, "before the deadline");
        CHECK(job.finish(0, job.push_after(15, {id})).has_value());  // it was taken: handled
        for (const uint64_t key : {11, 12, 13, 14})
            CHECK(job.value(key) == 0);
        CHECK(job.value(15) == 1);
        CHECK(job.tasks_left() == 0);
    }

    TEST_CASE("what failed between its naming and the call fails the call") {
        TaskCluster job(2);
        const auto late = job.failing();
        const TaskId id = job.name(late);
        REQUIRE(job.run_until([&] { return job.client().done(late); }));
        check_failed(job.finish(0, job.push_after(11, {id})), Errc::kDeadline, "task 1 of client");
        const auto wrong = job.part(17);  // refused at once, named afterwards
        check_failed(job.finish(0, job.push_after(11, {job.name(wrong)})), Errc::kInvalidArgument,
                     "task 3 of client 0 failed: table 'numbers': a push of iteration 17");
        CHECK(job.value(11) == 0);
    }

    TEST_CASE("a task of another client, or one never given out, is refused at once by name") {
        TaskCluster job;
        TaskCluster other;
        const auto open = job.push(1);
        const TaskId mine = job.name(open);
        const auto refused = [&](TaskId id) {
            const auto call = job.push_after(2, {mine, id});
            REQUIRE(job.client().done(call));
            return job.client().take(call);
        };
        check_failed(refused({0, 0, mine.instance}), Errc::kInvalidArgument, "task 0 of client 0");
        check_failed(refused({0, 99, mine.instance}), Errc::kInvalidArgument,
                     "task 99 of client 0: it was never given out");
        check_failed(refused({5, 1, mine.instance}), Errc::kInvalidArgument,
                     "task 1 of client 5: a task of client 0 cannot wait for another client's");
        check_failed(refused(other.name(other.push(1))), Errc::kInvalidArgument,
                     "task 1 of client 0: it is of another client with this number");
        CHECK(job.finish(0, open).has_value());
        CHECK(job.value(2) == 0);
    }

    TEST_CASE("a wrong argument is an error at once, also if the call would wait") {
        TaskCluster job(2);
        const auto late = job.failing();
        const std::vector<TaskId> after{job.name(late)};
        const std::array<uint64_t, 2> keys{1, 2};
        const auto call =
            job.client().push(job.table, keys, std::as_bytes(std::span(kOne)), {.after = after});
        CHECK(job.client().done(call));
        check_failed(job.client().take(call), Errc::kInvalidArgument, "2 keys need 2 values");
        CHECK(job.finish(0, late).code() == Errc::kDeadline);
    }

    TEST_CASE("values that are not finite when the call starts fail it then") {
        TaskCluster job;
        std::array<double, 1> values{1};
        const std::array<uint64_t, 1> keys{1};
        const auto first = job.push(2);
        const std::vector<TaskId> after{job.name(first)};
        const auto call =
            job.client().push(job.table, keys, std::as_bytes(std::span(values)), {.after = after});
        values[0] = std::numeric_limits<double>::infinity();
        CHECK_FALSE(job.client().done(call));
        check_failed(job.finish(0, call), Errc::kNotFinite, "a NaN or an infinity");
        CHECK(job.finish(0, first).has_value());
    }

    TEST_CASE("the deadline counts from when the call is made: what did not start is not sent") {
        TaskCluster job(2);
        const auto long_one = job.failing(3 * kSecond);
        const uint64_t begin_ns = job.clock.now_ns();
        const std::vector<TaskId> after{job.name(long_one)};
        const auto call = job.push(11, {.deadline_ns = kSecond, .after = after});
        const auto then = job.push_after(12, {job.name(call)});
        check_failed(job.finish(0, call), Errc::kDeadline,
                     "task 2 of client 0 did not start before its deadline, which counts from when "
                     "the call was made: it waited for task 1 of client 0");
        CHECK(job.clock.now_ns() - begin_ns >= kSecond);
        CHECK(job.clock.now_ns() - begin_ns < 2 * kSecond);
        check_failed(job.finish(0, then), Errc::kDeadline, "task 2 of client 0 failed: task 2 of");
        CHECK(job.finish(0, long_one).code() == Errc::kDeadline);
        CHECK(job.value(11) == 0);
        CHECK(job.value(12) == 0);
    }

    TEST_CASE("a call that started late has the rest of its time") {
        TaskCluster job(2);
        const auto long_one = job.failing(2 * kSecond);
        const uint64_t begin_ns = job.clock.now_ns();
        // Taken in time, so that the error is handled and its follower starts.
        const std::vector<TaskId> after{job.name(job.push(1))};
        CallOptions options;
        options.iteration = 2;  // waits for the other worker
        options.deadline_ns = kSecond;
        options.after = after;
        const auto call = job.push(11, options);
        CHECK(job.finish(0, call).code() == Errc::kDeadline);
        CHECK(job.clock.now_ns() - begin_ns >= kSecond);
        CHECK(job.clock.now_ns() - begin_ns < kSecond + kSecond / 2);
        CHECK(job.finish(0, long_one).code() == Errc::kDeadline);
    }

    TEST_CASE("a chain of 10,000 calls runs to its end, and fails to its end") {
        TaskCluster job(2);
        const auto chain = [&](CallId call) {
            for (int i = 0; i < 10'000; ++i) {
                const TaskId before = job.name(call);
                if (i > 0) job.client().drop(call);
                call = job.push_after(5, {before});
            }
            return call;
        };
        const auto first = job.push(1);
        CHECK(job.finish(0, chain(first)).has_value());
        CHECK(job.finish(0, first).has_value());
        CHECK(job.value(5) == 10'000);
        const auto late = job.failing();
        check_failed(job.finish(0, chain(late)), Errc::kDeadline, "failed: ");
        CHECK(job.finish(0, late).code() == Errc::kDeadline);
        CHECK(job.value(5) == 10'000);
        CHECK(job.tasks_left() == 0);
    }

    TEST_CASE("parts of iterations start in their order, whatever they wait for") {
        TaskCluster job;
        const auto gate = job.push(1);
        const auto first = job.part(1, {job.name(gate)});
        const auto second = job.part(2);  // would overtake it
        CHECK_FALSE(job.client().done(first));
        check_failed(job.finish(0, job.part(2)), Errc::kInvalidArgument,
                     "this worker's next one "
                     "is 3");
        CHECK(job.finish(0, second).has_value());
        CHECK(job.client().done(first));
        CHECK(job.client().take(first).has_value());
        CHECK(job.client().take(gate).has_value());
        CHECK(job.finish(0, job.part(3)).has_value());
        CHECK(job.value(7) == 3);
    }

    TEST_CASE("a part that is not sent takes those behind it along, and its number is free") {
        TaskCluster job(2);
        TableSchema schema = sparse_table("gate", ValueType::kFloat64);
        const TableInfo gate_table = *job.make_table(0, schema);
        const std::array<uint64_t, 1> keys{1};
        CallOptions options;
        options.iteration = 1;
        options.deadline_ns = kSecond;
        const auto gate =
            job.client().push(gate_table, keys, std::as_bytes(std::span(kOne)), options);
        const auto first = job.part(1, {job.name(gate)});
        const auto second = job.part(2);
        const auto third = job.part(3, {job.name(job.push(3))});
        check_failed(job.finish(0, third), Errc::kDeadline,
                     "iteration 1 of this table was not pushed, so that 3 cannot be: task 1 of "
                     "client 0 failed");
        check_failed(job.finish(0, second), Errc::kDeadline, "so that 2 cannot be");
        check_failed(job.finish(0, first), Errc::kDeadline, "task 1 of client 0 failed");
        const auto again = job.part(1);
        const auto others = job.part(1, {}, 1);
        CHECK(job.finish(0, again).has_value());
        CHECK(job.finish(1, others).has_value());
        CHECK(job.value(7) == 2);
    }

    TEST_CASE("a barrier comes after the tasks that it names, or not at all") {
        TaskCluster job(2);
        const auto first = job.push(1);
        const std::vector<TaskId> after{job.name(first)};
        const auto barrier = job.client().barrier(kSecond, after);
        const auto others = job.workers[1]->barrier(kSecond);
        CHECK(job.finish(0, barrier).has_value());
        CHECK(job.client().done(first));
        CHECK(job.finish(1, others).has_value());
        const auto late = job.failing(kSecond / 2);
        const std::vector<TaskId> failed{job.name(late)};
        const auto never = job.client().barrier(kSecond, failed);
        check_failed(job.finish(0, never), Errc::kDeadline, " failed: ");
    }

    TEST_CASE("leave() ends the calls that wait, and the client's failure does") {
        TaskCluster job(2);
        const auto late = job.failing();
        const auto waiting = job.push_after(11, {job.name(late)});
        CHECK(job.finish(0, job.client().leave({}, 0)).has_value());
        check_failed(job.finish(0, waiting), Errc::kUnavailable, "has left its job");
        CHECK(job.finish(0, late).code() == Errc::kDeadline);

        TaskCluster lost(2);
        const auto open = lost.failing(10 * kSecond);
        const auto after = lost.push_after(11, {lost.name(open)});
        lost.network.kill(0);
        CHECK_FALSE(lost.finish(0, after).has_value());
        CHECK_FALSE(lost.finish(0, open).has_value());
    }

    TEST_CASE("the memory of a call that waits is referenced") {
        TaskCluster job(2);
        double out = 0;
        const auto late = job.failing();
        const auto waiting = job.pull(11, out, {job.name(late)});
        const auto memory = std::as_bytes(std::span(&out, 1));
        CHECK(job.client().is_referenced(memory));
        CHECK_FALSE(job.finish(0, waiting).has_value());
        CHECK_FALSE(job.client().is_referenced(memory));
    }
}

}  // namespace weir::test

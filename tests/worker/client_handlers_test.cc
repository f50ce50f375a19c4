// SPDX-License-Identifier: Apache-2.0
/// \file
/// Handlers of calls and their subtasks, on simulated time.

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/worker/table.h"
#include "tests/worker/task_cluster.h"

namespace weir::test {

TEST_SUITE("client_handlers") {
    TEST_CASE("a handler's calls are subtasks: the task ends with them") {
        TaskCluster job;
        const auto first = job.push(1);
        std::optional<CallId> second;
        std::optional<CallId> third;
        REQUIRE(job.client()
                    .on_finished(first,
                                 [&](const Status& outcome) {
                                     CHECK(outcome.has_value());
                                     second = job.push(2);
                                     third = job.push_after(3, {job.name(*second)});
                                 })
                    .has_value());
        const auto after = job.push_after(4, {job.name(first)});
        CHECK(job.finish(0, first).has_value());
        REQUIRE(third.has_value());
        CHECK(job.client().done(*second));
        CHECK(job.client().done(*third));
        CHECK(job.finish(0, after).has_value());
        CHECK(job.client().take(*second).has_value());
        CHECK(job.client().take(*third).has_value());
        CHECK(job.value(3) == 1);
        CHECK(job.tasks_left() == 0);
    }

    TEST_CASE("the first error of a task or its subtasks is the task's") {
        TaskCluster job(2);
        const auto first = job.push(1);
        CHECK(job.client()
                  .on_finished(first, [&](const Status&) { job.client().drop(job.part(17)); })
                  .has_value());
        const auto after = job.push_after(4, {job.name(first)});
        check_failed(job.finish(0, first), Errc::kInvalidArgument,
                     "task 3 of client 0 failed: table 'numbers': a push of iteration 17");
        check_failed(job.finish(0, after), Errc::kInvalidArgument, "task 3 of client 0 failed: ");
        CHECK(job.tasks_left() == 0);
    }

    TEST_CASE("a handler of a task that failed, or never started, gets the error") {
        TaskCluster job(2);
        const auto late = job.failing();
        const auto waiting = job.push_after(11, {job.name(late)});
        std::vector<std::string> heard;
        const auto note = [&](const Status& outcome) {
            heard.emplace_back(outcome ? "" : outcome.error().text());
        };
        CHECK(job.client().on_finished(waiting, note).has_value());
        CHECK(job.client().on_finished(late, note).has_value());
        CHECK(job.finish(0, late).code() == Errc::kDeadline);
        CHECK(job.finish(0, waiting).code() == Errc::kDeadline);
        REQUIRE(heard.size() == 2);
        CHECK(heard[0].find("did not answer before the deadline") != std::string::npos);
        CHECK(heard[1].find("task 1 of client 0 failed") == 0);
        CHECK(job.tasks_left() == 0);
    }

    TEST_CASE("a handler that is attached to an ended task runs in the next poll, once") {
        TaskCluster job;
        const auto first = job.push(1);
        REQUIRE(job.run_until([&] { return job.client().done(first); }));
        int runs = 0;
        CHECK(job.client().on_finished(first, [&](const Status&) { ++runs; }).has_value());
        CHECK(runs == 0);
        (void)job.client().poll();
        CHECK(runs == 1);
        (void)job.client().poll();
        CHECK(runs == 1);
        CHECK(job.client().take(first).has_value());
        CHECK(job.client().on_finished(first, [](const Status&) {}).code() ==
              Errc::kInvalidArgument);
    }

    TEST_CASE("handlers run in order, never within each other") {
        TaskCluster job;
        std::string order;
        const auto first = job.push(1);
        const auto second = job.push(2);
        const auto handler = [&](char name) {
            return [&order, &job, name](const Status&) {
                order += name;
                for (int i = 0; i < 100; ++i)
                    (void)job.step();
                order += name;
            };
        };
        CHECK(job.client().on_finished(first, handler('a')).has_value());
        CHECK(job.client().on_finished(first, handler('b')).has_value());
        CHECK(job.client().on_finished(second, handler('c')).has_value());
        CHECK(job.finish(0, second).has_value());
        CHECK(job.finish(0, first).has_value());
        CHECK(order == "aabbcc");
    }

    TEST_CASE("a subtask that waits for its own task is refused: there are no cycles") {
        TaskCluster job;
        const auto first = job.push(1);
        const TaskId id = job.name(first);
        const auto after = job.push_after(2, {id});
        const TaskId later = job.name(after);
        CHECK(job.client()
                  .on_finished(first,
                               [&](const Status&) {
                                   for (const TaskId other : {id, later}) {
                                       const auto call = job.push_after(3, {other});
                                       REQUIRE(job.client().done(call));
                                       check_failed(job.client().take(call), Errc::kInvalidArgument,
                                                    "it ends after task 1 of client 0");
                                   }
                               })
                  .has_value());
        CHECK(job.finish(0, first).code() == Errc::kInvalidArgument);
        CHECK(job.finish(0, after).code() == Errc::kInvalidArgument);
        CHECK(job.tasks_left() == 0);
    }

    TEST_CASE("a task that is dropped in its handler, or before, runs to its end") {
        TaskCluster job;
        const auto first = job.push(1);
        bool has_run = false;
        CHECK(job.client()
                  .on_finished(first,
                               [&](const Status&) {
                                   job.client().drop(first);
                                   job.client().drop(job.push(2));
                                   has_run = true;
                               })
                  .has_value());
        const auto second = job.push(3);
        CHECK(job.client().on_finished(second, [&](const Status&) {}).has_value());
        job.client().drop(second);
        CHECK(job.finish(0, first).code() == Errc::kBusy);  // gone
        REQUIRE(job.run_until([&] { return job.tasks_left() == 0; }));
        CHECK(has_run);
        CHECK(job.value(2) == 1);
    }

    TEST_CASE("a chain of 2,000 handlers ends with its last call, without recursion") {
        TaskCluster job;
        int left = 2'000;
        std::function<void(const Status&)> next = [&](const Status&) {
            if (left-- == 0) return;
            const auto call = job.push(5);
            CHECK(job.client().on_finished(call, next).has_value());
            job.client().drop(call);
        };
        const auto first = job.push(5);
        CHECK(job.client().on_finished(first, next).has_value());
        CHECK(job.finish(0, first).has_value());
        CHECK(job.value(5) == 2'001);
        CHECK(job.tasks_left() == 0);
    }

    TEST_CASE("dropped handlers do not run, and their tasks end") {
        TaskCluster job;
        const auto first = job.push(1);
        const auto second = job.push(2);
        bool has_run = false;
        CHECK(job.client().on_finished(first, [&](const Status&) { has_run = true; }).has_value());
        REQUIRE(job.finish(0, second).has_value());
        CHECK(job.client().on_finished(first, [&](const Status&) { has_run = true; }).has_value());
        job.client().drop_handlers();
        has_run = false;
        CHECK(job.finish(0, first).has_value());
        CHECK_FALSE(has_run);
    }

    TEST_CASE("a Task that a handler destroys is cancelled, or its requests are waited for") {
        TaskCluster job(2);
        const auto pool =
            std::make_shared<RegisteredMemory>(job.device_of_worker(0), transport::Access::kRemote);
        auto core = std::move(job.workers[0]);
        ClientCore& client = *core;
        ClientState state(std::move(core), pool, nullptr, IdleOptions{});
        const std::array<uint64_t, 1> keys{9};
        const auto push = [&](const std::vector<TaskId>& after) {
            return client.push(job.table, keys, std::as_bytes(std::span(kOne)), {.after = after});
        };
        const auto run = [&](auto&& over) {
            REQUIRE(job.run_until([&] {
                (void)client.poll();
                return over();
            }));
        };
        const auto first = push({});
        CallId waiting = 0;
        CallId late = 0;
        CHECK(client
                  .on_finished(first,
                               [&](const Status&) {
                                   CHECK(state.may_wait().code() == Errc::kInvalidArgument);
                                   late = push({});
                                   waiting = push({client.name_task(late)});
                                   CHECK_FALSE(client.is_memory_free(waiting));
                                   state.free_memory(waiting);
                                   CHECK(client.is_memory_free(waiting));
                               })
                  .has_value());
        run([&] { return client.done(first); });
        CHECK(client.take(first).code() == Errc::kCancelled);
        CHECK(client.take(late).has_value());
        CHECK(state.may_wait().has_value());
        (void)client.poll();
        CHECK(client.graph().count() == 0);
    }
}

}  // namespace weir::test

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tasks of real jobs: waiting, groups, order and handlers.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/bytes.h"
#include "lib/weir.h"
#include "tests/job/small_job.h"
#include "tests/log_lines.h"

namespace weir::test {

TEST_SUITE("tasks") {
    TEST_CASE("a Task can be used again, and says the same after it was moved") {
        const auto job = start_job(1, 1, 1);
        auto client = std::move(job->make_client(0)).value();
        auto table = std::move(client.create_table<float>("t", dense_options(kMiB))).value();
        auto values = std::move(client.make_buffer<float>(kMiB)).value();
        auto out = std::move(client.make_buffer<float>(kMiB)).value();
        std::fill(values.begin(), values.end(), 1.0F);
        const KeyRange all{0, kMiB};
        Task task;
        CHECK(task.test());
        CHECK(task.wait().has_value());
        for (int round = 1; round <= 20; ++round) {
            task = table.push(all, values);
            REQUIRE(task.wait().has_value());
            REQUIRE(table.pull(all, out).wait().has_value());
            REQUIRE(out[kMiB - 1] == static_cast<float>(round));
        }
        task = table.push(KeyRange{0, kMiB + 1}, values);  // one key too many
        const Errc mistake = task.wait().code();
        CHECK(mistake != Errc::kOk);
        std::vector<Task> tasks;
        tasks.push_back(std::move(task));
        for (int i = 0; i < 100; ++i) {  // the vector moves them when it grows
            tasks.push_back(table.push(all, values));
            REQUIRE(tasks.back().wait().has_value());
        }
        CHECK(tasks[0].wait().code() == mistake);
        for (size_t i = 1; i < tasks.size(); ++i)
            CHECK(tasks[i].wait().has_value());
        REQUIRE(client.leave().has_value());
        CHECK(job->serve().has_value());
    }

    TEST_CASE("a task tells whether it is finished, and may be dropped") {
        const auto job = start_job(1, 1, 1);
        auto client = std::move(job->make_client(0)).value();
        auto table = std::move(client.create_table<double>("t", dense_options(10))).value();
        auto buffer = std::move(client.make_buffer<double>(10)).value();
        Task task = table.push(KeyRange{0, 10}, buffer);
        while (!task.test())
            std::this_thread::yield();
        CHECK(task.wait().has_value());
        CHECK(task.wait().has_value());
        { const Task dropped = table.push(KeyRange{0, 10}, buffer); }
        Task other = table.pull(KeyRange{0, 10}, buffer);
        CHECK(other.wait_for(std::chrono::nanoseconds::max()).has_value());
        REQUIRE(client.leave().has_value());
    }

    TEST_CASE("who returns at the first error has its memory back: nothing comes late") {
        constexpr size_t kKeys = 65536;
        const auto job = start_job(1, 2, 2);
        std::vector<double> memory(kKeys);
        std::vector<Status> outcomes(2);
        std::atomic<bool> was_refused = false;
        each_worker(*job, [&](uint32_t i) {
            auto client = std::move(job->make_client(i)).value();
            auto table = std::move(client.create_table<double>("t", dense_options(kKeys))).value();
            const KeyRange all{0, kKeys};
            const std::vector<double> ones(kKeys, 1.0);
            if (i == 1) {
                while (!was_refused)
                    std::this_thread::yield();
                std::this_thread::sleep_for(std::chrono::milliseconds(50));
                outcomes[i] = table.push(all, ones, {.iteration = 1}).wait();
            } else {
                const Task part = table.push(all, ones, {.iteration = 1});
                const auto first_error = [&](std::span<double> out) -> Status {
                    Task pull = table.pull(all, out, {.iteration = 1});
                    const std::vector<double> wrong(kKeys, std::nan(""));
                    const Status refused = table.push(all, wrong).wait();
                    was_refused = true;
                    WEIR_TRY(refused);
                    return pull.wait();
                };
                outcomes[i] = first_error(memory);
                std::fill(memory.begin(), memory.end(), -7.0);  // the caller reuses it now
                CHECK(client.barrier().has_value());
                for (int poll = 0; poll < 1000; ++poll)
                    (void)table.pull(KeyRange{0, 1}, std::span(memory).first(1)).wait();
                memory[0] = -7;
            }
            if (i == 1) CHECK(client.barrier().has_value());
            CHECK(client.leave().has_value());
        });
        CHECK(outcomes[0].code() == Errc::kNotFinite);
        CHECK(outcomes[1].has_value());
        CHECK(std::count(memory.begin(), memory.end(), -7.0) == kKeys);
        CHECK(job->serve().has_value());
    }

    TEST_CASE("a task that is replaced or goes has ended before that") {
        const auto job = start_job(1, 1, 1);
        auto client = std::move(job->make_client(0)).value();
        auto table = std::move(client.create_table<double>("t", dense_options(kMiB))).value();
        auto out = std::move(client.make_buffer<double>(kMiB)).value();
        const KeyRange all{0, kMiB};
        const std::vector<double> ones(kMiB, 1.0);
        { const Task dropped = table.push(all, ones); }
        { const Task dropped = table.pull(all, out); }
        CHECK(std::count(out.begin(), out.end(), 1.0) == kMiB);
        Task task = table.push(all, ones);
        task = table.pull(all, out);
        task = {};
        CHECK(std::count(out.begin(), out.end(), 2.0) == kMiB);
        REQUIRE(client.leave().has_value());
    }

    TEST_CASE("tasks: a group waits for all, says the first error, and can be used again") {
        const auto job = start_job(1, 2, 1);
        auto client = std::move(job->make_client(0)).value();
        auto table = std::move(client.create_table<double>("t", dense_options(kMiB))).value();
        const std::vector<double> ones(kMiB, 1.0);
        std::vector<double> out(kMiB);
        const auto few = std::span(ones).first(5);
        const KeyRange all{0, kMiB};
        {
            Tasks tasks;
            CHECK(tasks.count() == 0);
            CHECK(tasks.wait().has_value());
            for (int i = 0; i < 3; ++i)
                tasks.add(table.push(all, ones));
            tasks.add(table.push(all, few));            // too few values
            tasks.add(table.push(KeyRange{1, 0}, {}));  // no range at all
            tasks.add(table.pull(all, out));
            CHECK(tasks.count() == 6);
            const Status first = tasks.wait();
            CHECK(first.code() == Errc::kInvalidArgument);
            CHECK(tasks.count() == 0);
            CHECK(std::count(out.begin(), out.end(), 3.0) == kMiB);
            CHECK(tasks.wait().has_value());  // the error was returned before
        }
        {
            Tasks tasks;
            tasks.add(table.push(all, few));
            while (tasks.count() > 0)
                (void)tasks.reap();
            tasks.add(table.push(all, ones));
            CHECK(tasks.wait_for_room(1).code() == Errc::kInvalidArgument);  // kept by reap()
            CHECK(tasks.wait().code() == Errc::kInvalidArgument);
            CHECK(tasks.wait().has_value());
        }
        {
            Tasks tasks;
            for (int i = 0; i < 10; ++i) {
                REQUIRE(tasks.wait_for_room(3).has_value());
                CHECK(tasks.count() < 3);
                tasks.add(table.push(all, ones));
            }
            Tasks moved = std::move(tasks);
            CHECK(tasks.count() == 0);
            moved.add(table.pull(all, out));
        }  // drained here
        CHECK(std::count(out.begin(), out.end(), 14.0) == kMiB);
        REQUIRE(client.leave().has_value());
    }

    TEST_CASE("calls that name tasks run in that order, also when the Tasks are gone") {
        auto job = start_job(1, 2, 1);
        auto client = job->make_client(0);
        REQUIRE(client.has_value());
        auto table = *client->create_table<double>("numbers", {.rule = assign()});
        const std::vector<uint64_t> key{5};
        std::vector<double> values(100);
        std::iota(values.begin(), values.end(), 1.0);
        std::vector<double> seen(1);
        Tasks tasks;
        TaskId before = kNoTask;
        for (const double& value : values) {
            Task push = table.push(key, std::span(&value, 1), {.after = {before}});
            before = push.id();
            tasks.add(std::move(push));
        }
        Task pull = table.pull(key, seen, {.after = {before}});
        CHECK(pull.wait());
        CHECK(seen[0] == 100);
        CHECK(tasks.wait());
        CHECK(pull.id() == kNoTask);
        Task named = table.pull(key, seen);
        const TaskId id = named.id();
        CHECK(named.wait());
        CHECK(named.id() == id);
        CHECK(client->barrier({}, std::array{id}));
        CHECK(client->leave());
        CHECK(job->serve());
    }

    TEST_CASE("a scan, stats and the making of a table come after the tasks that they name") {
        auto job = start_job(1, 2, 1);
        auto client = job->make_client(0);
        REQUIRE(client.has_value());
        auto table = *client->create_table<double>("numbers", {});
        const std::vector<uint64_t> key{5};
        const std::vector<double> one{1};
        uint32_t handled = 0;
        Tasks tasks;
        const auto push_first = [&] {  // it has ended once its handler has run
            Task push = table.push(key, one);
            CHECK(push.then([&](const Status& pushed) { handled += pushed ? 1 : 0; }));
            const TaskId id = push.id();
            tasks.add(std::move(push));
            return id;
        };
        auto scan = table.scan({.after = {push_first()}});
        CHECK(scan.next());
        CHECK(handled == 1);
        CHECK(scan.values()[0] == 1);
        CHECK_FALSE(scan.next());
        CHECK(scan.status());
        const auto stats = client->stats(std::array{push_first()});
        CHECK(handled == 2);
        CHECK(stats->servers_keys_held == 1);
        CHECK(client->create_table<double>("others", {}, std::array{push_first()}));
        CHECK(handled == 3);
        CHECK(client->open_table<double>("others", 0, std::array{push_first()}));
        CHECK(handled == 4);

        Task wrong = table.push(key, {});
        const TaskId failed = wrong.id();
        const auto check_failed = [&](const auto& outcome) {
            CHECK(outcome.code() == Errc::kInvalidArgument);
            CHECK(outcome.error().text().find("of client 0 failed: table 'numbers'") !=
                  std::string::npos);
        };
        auto none = table.scan({.after = {failed}});
        CHECK_FALSE(none.next());
        check_failed(none.status());
        check_failed(client->stats(std::array{failed}));
        check_failed(client->create_table<double>("never", {}, std::array{failed}));
        check_failed(client->open_table<double>("others", 0, std::array{failed}));
        CHECK(client->open_table<double>("never").code() == Errc::kNotFound);
        CHECK_FALSE(wrong.wait());
        CHECK(client->stats(std::array{failed}));             // it was taken: handled
        auto unread = table.scan({.after = {push_first()}});  // destroyed before it has begun
        CHECK(tasks.wait());
        CHECK(client->leave());
        auto late = table.scan({.after = {failed}});
        CHECK_FALSE(late.next());
        CHECK(late.status().code() == Errc::kUnavailable);
        CHECK(job->serve());
    }

    TEST_CASE("handlers: they run while the client waits, may not wait, and may end their Task") {
        auto job = start_job(1, 2, 1);
        auto client = job->make_client(0);
        REQUIRE(client.has_value());
        auto table = *client->create_table<double>("numbers", {});
        const std::vector<uint64_t> key{5};
        const std::vector<double> one{1};
        std::vector<double> seen(1);
        Tasks follow_up;
        Task first = table.push(key, one);
        REQUIRE(first.then([&](const Status& pushed) {
            CHECK(pushed);
            Task refused = table.pull(key, seen);
            CHECK(refused.wait().code() == Errc::kInvalidArgument);
            CHECK(client->barrier().code() == Errc::kInvalidArgument);
            CHECK(client->stats().code() == Errc::kInvalidArgument);
            CHECK(client->leave().code() == Errc::kInvalidArgument);
            CHECK(client->open_table<double>("numbers").code() == Errc::kInvalidArgument);
            follow_up.add(std::move(refused));
            CHECK(follow_up.wait().code() == Errc::kInvalidArgument);
            CHECK(follow_up.count() == 1);
        }));
        CHECK(first.wait());
        CHECK(follow_up.reap() == 1);
        CHECK(follow_up.wait());
        CHECK(seen[0] == 1);
        CHECK(first.then([](const Status&) {}).code() == Errc::kInvalidArgument);

        auto owned = std::make_unique<Task>(table.push(key, one));
        bool has_run = false;
        REQUIRE(owned->then([&](const Status&) {
            owned.reset();
            Task gone = table.push(key, one);  // its requests are waited for
            has_run = true;
        }));
        while (!has_run)
            CHECK(table.pull(key, seen).wait());
        CHECK(table.pull(key, seen).wait());
        CHECK(seen[0] == 3);

        Task last = table.push(key, one);  // its handler would outlive what it uses
        REQUIRE(last.then([&](const Status&) { has_run = false; }));
        CHECK(client->leave());
        has_run = true;
        client = Error(Errc::kCancelled, "gone");
        CHECK(last.wait());
        CHECK(has_run);
        CHECK(job->serve());
    }

    TEST_CASE("an error that nobody asks for is logged once, with call and table, and counted") {
        const testing::LogLines log;
        auto job = start_job(1, 1, 1);
        auto client = job->make_client(0);
        REQUIRE(client.has_value());
        auto table = *client->create_table<double>("numbers", {});
        const std::vector<uint64_t> sorted{3, 5};
        const std::vector<uint64_t> unsorted{5, 3};
        std::vector<double> two{1, 1};
        const auto lost = [&] { return std::move(client->stats()).value().errors_lost; };
        {
            const Task good = table.push(sorted, two);
            const Task bad = table.push(unsorted, two);
        }
        CHECK(lost() == 1);
        const std::string says = "a push to table 'numbers' failed: ";
        CHECK(log.count(says) == 1);
        CHECK(log.has("a Task was destroyed without wait()"));
        for (int i = 0; i < 5; ++i)
            const Task bad = table.push(unsorted, two);
        CHECK(lost() == 6);
        CHECK(log.count(says) == 1);
        Task waited = table.push(unsorted, two);
        CHECK(waited.wait().code() == Errc::kInvalidArgument);
        CHECK(waited.wait().code() == Errc::kInvalidArgument);
        waited = Task();
        CHECK(lost() == 6);
        waited = table.pull(unsorted, two);
        waited = Task();  // an assignment loses it, too
        CHECK(lost() == 7);
        CHECK(log.count("a pull from table 'numbers' failed: ") == 1);
        {
            Tasks tasks;
            tasks.add(table.push(unsorted, two));
            CHECK(tasks.reap() == 1);
        }
        CHECK(lost() == 8);
        {
            Tasks tasks;
            tasks.add(table.push(unsorted, two));
            CHECK_FALSE(tasks.wait());
            tasks.add(table.push(unsorted, two));
            CHECK_FALSE(tasks.wait_for_room(1));
        }
        CHECK(lost() == 8);
        {
            Tasks tasks;
            for (int i = 0; i < 3; ++i)
                tasks.add(table.push(unsorted, two));
            CHECK(tasks.reap() == 3);
            CHECK(lost() == 10);  // it tells the first one
            tasks.add(table.push(unsorted, two));
            CHECK(tasks.wait().code() == Errc::kInvalidArgument);
            CHECK(lost() == 11);
        }
        CHECK(lost() == 11);
        CHECK(client->worker_count_at_start() == 1);
        CHECK(client->leave());
        const Task after = table.pull(unsorted, two);  // whoever asks for anything hears that
        CHECK(job->serve());
        CHECK(log.count("failed: ") == 2);
    }

    TEST_CASE("an error of a call whose Task is destroyed in a handler is logged and counted") {
        const testing::LogLines log;
        const auto job = start_job(1, 1, 2);
        const Status ended = job->run_workers([&](Client& client) -> Status {
            auto table = std::move(client.create_table<double>("numbers", {})).value();
            const std::vector<uint64_t> key{5};
            std::vector<double> one{1};
            if (client.worker() == 0) {
                // It waits for the part of the other worker, which does not come.
                auto late = std::make_unique<Task>(table.push(
                    key, one, {.iteration = 1, .deadline = std::chrono::milliseconds(200)}));
                Task first = table.pull(key, one);
                REQUIRE(first.then([&](const Status&) { late.reset(); }));
                CHECK(first.wait());
                CHECK(late == nullptr);
                CHECK(std::move(client.stats()).value().errors_lost == 1);
            }
            CHECK(client.barrier());
            return {};
        });
        CHECK(ended);
        CHECK(log.count("a push to table 'numbers' failed: ") == 1);
    }

    TEST_CASE("a client that is destroyed ends the calls that wait") {
        auto job = start_job(1, 1, 1);
        auto client = job->make_client(0);
        REQUIRE(client.has_value());
        auto table = *client->create_table<double>("numbers", {});
        const std::vector<uint64_t> key{5};
        const std::vector<double> one{1};
        Task first = table.push(key, one);
        Task waiting = table.push(key, one, {.after = {first.id()}});
        Task waiting_for_ever = table.push(key, one, {.after = {waiting.id()}});
        client = Error(Errc::kCancelled, "gone");
        (void)first.wait();
        (void)waiting.wait();
        (void)waiting_for_ever.wait();
        CHECK_FALSE(job->serve());
    }
}

}  // namespace weir::test

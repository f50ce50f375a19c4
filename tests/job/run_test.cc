// SPDX-License-Identifier: Apache-2.0
/// \file
/// run(), a process's whole part in a job; its shape by variables; and mistakes of its workers: exceptions, and a client
/// that two threads use.

#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "lib/job/job_variables.h"
#include "lib/weir.h"
#include "tests/job/small_job.h"
#include "tests/log_lines.h"
#include "tests/wait_until.h"
#include "transport/net/reserved_port.h"

namespace weir::test {
namespace {

Config small_pools_with(Environment::Map variables) {
    variables.emplace("WEIR_POOL_MIB", "16");
    return Config(Environment(std::move(variables)));
}

/// Calls run() as each rank of a job, in threads, and returns what it returned.
std::vector<Status> run_as_ranks(uint32_t size, const Environment::Map& variables,
                                 const std::function<Status(Client&)>& train) {
    const auto port = transport::ReservedPort::make();
    REQUIRE(port);
    std::vector<Status> outcomes(size);
    std::vector<std::thread> ranks;
    for (uint32_t rank = 0; rank < size; ++rank) {
        Environment::Map own = variables;
        own.insert({{"WEIR_TRANSPORT", "shm"},
                    {"WEIR_RENDEZVOUS", fmt::format("127.0.0.1:{}", port->number())},
                    {"WEIR_RANK", std::to_string(rank)},
                    {"WEIR_SIZE", std::to_string(size)}});
        ranks.emplace_back([&outcomes, &train, rank, config = small_pools_with(std::move(own))] {
            outcomes[rank] = run({}, config, train);
        });
    }
    for (std::thread& rank : ranks)
        rank.join();
    return outcomes;
}

Status count_in(Client& client, std::atomic<int>& sum) {
    WEIR_ASSIGN(auto table, client.create_table<int64_t>("sums", dense_options(1)));
    const std::vector<int64_t> one{1};
    WEIR_TRY(table.push(KeyRange{0, 1}, one, {.iteration = 1}).wait());
    std::vector<int64_t> seen(1);
    WEIR_TRY(table.pull(KeyRange{0, 1}, seen).wait());
    sum += static_cast<int>(seen[0]);
    return {};
}

}  // namespace

TEST_SUITE("run") {
    TEST_CASE("run() is a whole job in one process") {
        std::atomic<int> sum = 0;
        const Status done = run({.shards_per_server = 2, .workers = 3}, small_pools(),
                                [&](Client& client) { return count_in(client, sum); });
        CHECK_MESSAGE(done.has_value(), done.error().message());
        CHECK(sum == 9);
    }

    TEST_CASE(
        "of several ranks those with servers serve, and the others work, in a shape that variables "
        "give") {
        std::atomic<int> sum = 0;
        for (const Status& done :
             run_as_ranks(4, {{"WEIR_SERVERS", "2"}, {"WEIR_SHARDS", "2"}, {"WEIR_WORKERS", "2"}},
                          [&](Client& client) { return count_in(client, sum); }))
            CHECK_MESSAGE(done.has_value(), done.error().message());
        CHECK(sum == 16);  // two ranks of two workers
    }

    TEST_CASE("the first error is returned on the rank that has it, and servers serve to the end") {
        const auto outcomes =
            run_as_ranks(3, {{"WEIR_SERVERS", "1"}}, [](Client& client) -> Status {
                if (client.worker() == 1) return Error(Errc::kIo, "disk full");
                return client.barrier();
            });
        CHECK(outcomes[0].code() == Errc::kPeerLost);
        CHECK(outcomes[1].code() == Errc::kPeerLost);
        CHECK(outcomes[2].code() == Errc::kIo);
        CHECK(outcomes[2].error().text() == "worker 1: disk full");
        CHECK(outcomes[1].error().text().find("disk full") != std::string::npos);
    }

    TEST_CASE("a job that cannot start is an error of run(), and no worker runs") {
        const Status done = run({.servers = 0}, small_pools(), [](Client&) -> Status {
            FAIL_CHECK("a worker runs");
            return {};
        });
        CHECK(done.code() == Errc::kInvalidArgument);
    }

    TEST_CASE("run_workers() a second time is an error that says so") {
        auto job = std::move(Job::start({}, small_pools())).value();
        const auto nothing = [](Client&) -> Status { return {}; };
        CHECK(job->run_workers(nothing));
        const Status again = job->run_workers(nothing);
        CHECK(again.code() == Errc::kInvalidArgument);
        CHECK(again.error().text().find("run_workers() once") != std::string::npos);
        CHECK(job->serve());
    }

    TEST_CASE("an exception in a worker is an error that names the worker, also for the others") {
        const auto job = start_job(1, 1, 2);
        Status others;
        const Status done = job->run_workers([&](Client& client) -> Status {
            if (client.worker() == 0) throw std::runtime_error("no such column");
            others = client.barrier();
            return others;
        });
        CHECK(done.code() == Errc::kException);
        CHECK(done.error().text() == "worker 0: its function threw an exception: no such column");
        CHECK(others.code() == Errc::kPeerLost);
        CHECK(others.error().text().find("no such column") != std::string::npos);
        CHECK_FALSE(job->serve().has_value());
    }

    TEST_CASE("other exceptions, and a shortage of memory, are errors as well") {
        const Status other = run({}, small_pools(), [](Client&) -> Status { throw 7; });
        CHECK(other.code() == Errc::kException);
        const Status none =
            run({}, small_pools(), [](Client&) -> Status { throw std::bad_alloc(); });
        CHECK(none.code() == Errc::kNoMemory);
    }

    TEST_CASE("a client that two threads use at the same time says so, and works on") {
        const testing::LogLines log;
        const auto job = start_job(1, 1, 2);
        std::atomic<bool> is_waiting = false;
        std::atomic<bool> may_come = false;
        const Status done = job->run_workers([&](Client& client) -> Status {
            WEIR_ASSIGN(auto table, client.create_table<double>("t", dense_options(4)));
            std::vector<double> values(4, 1);
            const KeyRange all{0, 4};
            if (client.worker() == 1) {
                while (!may_come)
                    std::this_thread::yield();
                return client.barrier();
            }
            Task earlier = table.push(all, values);
            WEIR_TRY(earlier.wait_for(std::chrono::seconds(60)));
            Task open = table.pull(all, values);
            WEIR_ASSIGN(auto buffer, client.make_buffer<double>(4));
            auto begun = table.scan();
            std::thread second([&] {
                while (!is_waiting)
                    std::this_thread::yield();
                // The other thread is in barrier() soon.
                CHECK(testing::wait_until(
                    [&] {
                        return client.barrier(std::chrono::seconds(-1)).code() == Errc::kTwoThreads;
                    },
                    [] { std::this_thread::yield(); }));
                CHECK(table.push(all, values).wait().code() == Errc::kTwoThreads);
                CHECK(table.pull(all, values).wait().code() == Errc::kTwoThreads);
                CHECK(client.stats().code() == Errc::kTwoThreads);
                CHECK(client.make_buffer<double>(1).code() == Errc::kTwoThreads);
                CHECK(client.create_table<double>("u", {}).code() == Errc::kTwoThreads);
                CHECK(client.leave().code() == Errc::kTwoThreads);
                CHECK(client.take_events().code() == Errc::kTwoThreads);
                CHECK(open.wait().code() == Errc::kTwoThreads);
                CHECK_FALSE(open.test());
                CHECK(table.next_iteration() == 0);  // which no call takes
                Iterations iterations(client);
                CHECK(iterations.begin(1).code() == Errc::kTwoThreads);
                auto scan = table.scan();
                CHECK_FALSE(scan.next());
                CHECK(scan.status().code() == Errc::kTwoThreads);
                CHECK_FALSE(begun.next());
                CHECK(begun.status().code() == Errc::kTwoThreads);
                may_come = true;
                // Destructors wait for their turn.
                const Task ends = std::move(open);
                const Buffer<double> ends_too = std::move(buffer);
            });
            is_waiting = true;
            Status met;
            do {
                met = client.barrier();
            } while (met.code() == Errc::kTwoThreads);  // the other one was there at that moment
            second.join();
            WEIR_TRY(met);
            size_t read = 0;  // by a scan that the other thread could not disturb
            while (begun.next())
                read += begun.keys().size();
            CHECK(read == 4);
            WEIR_TRY(begun.status());
            return table.pull(all, values).wait();
        });
        CHECK_MESSAGE(done.has_value(), done.error().message());
        CHECK(job->serve().has_value());
        CHECK(log.count("two threads use one client at the same time") == 1);
    }

    TEST_CASE("whether the job is being stopped, a second thread does not hear meanwhile") {
        const testing::LogLines log;
        const auto job = start_job(1, 1, 2);
        std::atomic<bool> may_come = false;
        const Status done = job->run_workers([&](Client& client) -> Status {
            if (client.worker() == 1) {
                while (!may_come)
                    std::this_thread::yield();
                return client.barrier();
            }
            std::thread second([&] {  // the first one is in barrier(), or soon
                CHECK(testing::wait_until(
                    [&] {
                        CHECK_FALSE(client.is_stopping());
                        return log.count("two threads use one client at the same time") == 1;
                    },
                    [] { std::this_thread::yield(); }));
                may_come = true;
            });
            Status met;
            do {
                met = client.barrier();
            } while (met.code() == Errc::kTwoThreads);
            second.join();
            return met;
        });
        CHECK_MESSAGE(done.has_value(), done.error().message());
        CHECK(job->serve().has_value());
    }

    TEST_CASE("a client may go from thread to thread") {
        const Status done = run({}, small_pools(), [](Client& client) -> Status {
            Status outcome;
            std::thread([&] { outcome = client.barrier(); }).join();
            WEIR_TRY(outcome);
            return client.barrier();
        });
        CHECK_MESSAGE(done.has_value(), done.error().message());
    }
}

TEST_SUITE("job variables") {
    TEST_CASE("without variables the options are the program's") {
        JobOptions options;
        options.servers = 3;
        options.colocate = true;
        options.resume = "/some/where";
        const auto same = with_variables(options, Config());
        REQUIRE(same);
        CHECK(same->servers == 3);
        CHECK(same->colocate);
        CHECK(same->resume == "/some/where");
    }

    TEST_CASE("a variable counts more than the program, and a flag more than the variable") {
        JobOptions options;
        options.servers = 3;
        options.colocate = true;
        Config config = small_pools_with({{"WEIR_SERVERS", "2"},
                                          {"WEIR_SHARDS", "4"},
                                          {"WEIR_WORKERS", "5"},
                                          {"WEIR_COLOCATE", "no"},
                                          {"WEIR_REPLICAS", "1"},
                                          {"WEIR_MANAGERS", "3"},
                                          {"WEIR_ON_WORKER_LOSS", "reassign"},
                                          {"WEIR_WORK_LEASE_S", "7"},
                                          {"WEIR_CONTACT_FILE", "contact"},
                                          {"WEIR_CHECKPOINT_DIR", "folder"},
                                          {"WEIR_CHECKPOINT_EVERY_S", "60"},
                                          {"WEIR_RESUME", "auto"}});
        config.set_flag("WEIR_WORKERS", "--workers", "6");
        const auto given = with_variables(options, config);
        REQUIRE(given);
        CHECK(given->servers == 2);
        CHECK(given->shards_per_server == 4);
        CHECK(given->workers == 6);
        CHECK_FALSE(given->colocate);
        CHECK(given->replicas == 1);
        CHECK(given->managers == 3);
        CHECK(given->on_worker_loss == OnWorkerLoss::kReassign);
        CHECK(given->work_lease == std::chrono::seconds(7));
        CHECK(given->contact_file == "contact");
        CHECK(given->checkpoint_folder == "folder");
        CHECK(given->checkpoint_every == std::chrono::seconds(60));
        CHECK(given->resume == kResumeAuto);
    }

    TEST_CASE("a wrong variable keeps the job from starting, and is named") {
        for (const auto& [name, value] : {std::pair{"WEIR_SERVERS", "0"},
                                          {"WEIR_WORKERS", "two"},
                                          {"WEIR_ON_WORKER_LOSS", "go"}}) {
            const auto job = Job::start({}, small_pools_with({{name, value}}));
            CHECK(job.code() == Errc::kInvalidArgument);
            CHECK(job.error().text().find(fmt::format("{}={}: must be ", name, value)) == 0);
        }
    }
}

}  // namespace weir::test

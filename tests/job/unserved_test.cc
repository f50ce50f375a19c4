// SPDX-License-Identifier: Apache-2.0
/// \file
/// A rank with servers whose program forgets serve(): both ends say so. The ranks share this process, and
/// nothing else.

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "lib/weir.h"
#include "tests/job/small_job.h"
#include "tests/log_lines.h"
#include "transport/net/reserved_port.h"

namespace weir::test {
namespace {

constexpr const char* kSaysHere =
    "ends before the job is over, and its server with it: call Job::serve()";

std::string says_there(uint32_t rank) {
    return fmt::format("rank {} left before the job was over: did it call serve()?", rank);
}

/// Runs `run(rank, job)` for each rank, in threads.
template <class Run>
void run_ranks(const JobOptions& options, uint32_t size, Run&& run) {
    const auto port = transport::ReservedPort::make();
    REQUIRE(port);
    const std::string at = fmt::format("127.0.0.1:{}", port->number());
    std::vector<std::thread> ranks;
    for (uint32_t rank = 0; rank < size; ++rank) {
        ranks.emplace_back([&, rank] {
            const Config config(Environment(Environment::Map{{"WEIR_POOL_MIB", "16"},
                                                             {"WEIR_TRANSPORT", "shm"},
                                                             {"WEIR_RENDEZVOUS", at},
                                                             {"WEIR_RANK", std::to_string(rank)},
                                                             {"WEIR_SIZE", std::to_string(size)}}));
            auto job = Job::start(options, config);
            CHECK_MESSAGE(job.has_value(), (job ? "" : job.error().message()));
            if (job) run(rank, std::move(*job));
        });
    }
    for (std::thread& rank : ranks)
        rank.join();
}

/// Waits for what never comes.
Status wait_for_ever(Client& client, std::atomic<bool>& has_begun) {
    WEIR_ASSIGN(auto table, client.create_table<double>("t", dense_options(10)));
    has_begun = true;
    std::vector<double> values(10);
    for (;;) {
        WEIR_TRY(table.pull(KeyRange{0, 10}, values).wait());
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

}  // namespace

TEST_SUITE("unserved") {
    TEST_CASE("a rank with the manager that leaves at once, or later, is named at both ends") {
        for (const bool is_late : {false, true}) {
            CAPTURE(is_late);
            const testing::LogLines log;
            std::atomic<bool> has_begun = false;
            Status outcome;
            run_ranks({}, 2, [&](uint32_t rank, std::unique_ptr<Job> job) {
                if (rank == 0) {
                    while (is_late && !has_begun)
                        std::this_thread::yield();
                    return job.reset();
                }
                if (!is_late) std::this_thread::sleep_for(std::chrono::seconds(2));
                outcome = job->run_workers(
                    [&](Client& client) { return wait_for_ever(client, has_begun); });
            });
            CHECK(outcome.code() == Errc::kPeerLost);
            CHECK_MESSAGE(outcome.error().text().find(says_there(0)) != std::string::npos,
                          outcome.error().text());
            CHECK(log.count(kSaysHere) == 1);
            CHECK(log.has("rank 0 ends before"));
        }
    }

    TEST_CASE("a rank with another server that leaves is named at both ends") {
        const testing::LogLines log;
        std::atomic<bool> has_begun = false;
        Status outcome;
        Status served;
        run_ranks({.servers = 2}, 3, [&](uint32_t rank, std::unique_ptr<Job> job) {
            if (rank == 0) served = job->serve();
            if (rank == 1) {
                while (!has_begun)
                    std::this_thread::yield();
                job.reset();
            }
            if (rank != 2) return;
            outcome =
                job->run_workers([&](Client& client) { return wait_for_ever(client, has_begun); });
        });
        CHECK(outcome.code() == Errc::kPeerLost);
        CHECK_MESSAGE(outcome.error().text().find(says_there(1)) != std::string::npos,
                      outcome.error().text());
        CHECK(served.error().text().find(says_there(1)) != std::string::npos);
        CHECK(log.count(kSaysHere) == 1);
        CHECK(log.has("rank 1 ends before"));
    }

    TEST_CASE("why a worker of that rank gave up counts for more") {
        std::atomic<bool> has_begun = false;
        Status outcome;
        JobOptions options;
        options.colocate = true;
        run_ranks(options, 2, [&](uint32_t rank, std::unique_ptr<Job> job) {
            if (rank == 0) {
                CHECK(job->run_workers([&](Client&) -> Status {
                             while (!has_begun)
                                 std::this_thread::yield();
                             return Error(Errc::kIo, "disk full");
                         })
                          .code() == Errc::kIo);
                return job.reset();
            }
            outcome =
                job->run_workers([&](Client& client) { return wait_for_ever(client, has_begun); });
        });
        CHECK(outcome.code() == Errc::kPeerLost);
        CHECK_MESSAGE(outcome.error().text().find("disk full") != std::string::npos,
                      outcome.error().text());
    }

    TEST_CASE(
        "a job of one process, or one whose workers have all left, needs nobody to serve it") {
        const testing::LogLines log;
        {
            const auto job = start_job(1, 2, 1);
            CHECK(job->run_workers([](Client& client) { return client.barrier(); }));
        }
        { const auto job = start_job(1, 1, 1); }
        run_ranks({}, 2, [&](uint32_t rank, std::unique_ptr<Job> job) {
            CHECK(job->run_workers([](Client& client) { return client.barrier(); }));
            if (rank == 0) CHECK(job->serve());
        });
        CHECK_FALSE(log.has(kSaysHere));
    }
}

}  // namespace weir::test

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Real jobs in this process, over shared memory: their start, their end, and their counters.

#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/bytes.h"
#include "lib/weir.h"
#include "tests/job/small_job.h"

namespace weir::test {
namespace {

/// A job of two workers, the second of which never comes. Whether the error of the first names it,
/// and nobody else.
bool names_missing_worker(uint64_t join_timeout_s) {
    JobOptions options;
    options.workers = 2;
    const Config config(Environment(Environment::Map{
        {"WEIR_POOL_MIB", "16"}, {"WEIR_JOIN_TIMEOUT_S", std::to_string(join_timeout_s)}}));
    const auto job = Job::start(options, config);
    REQUIRE(job.has_value());
    const auto client = (*job)->make_client(0);
    CHECK((*job)->serve().code() == Errc::kDeadline);
    return client.code() == Errc::kDeadline &&
           client.error().message().find("rank 0 (worker 1) did not join") != std::string::npos &&
           client.error().message().find("shard") == std::string::npos &&
           client.error().message().find("worker 0") == std::string::npos;
}

}  // namespace

TEST_SUITE("job") {
    TEST_CASE("what is registered and used shows in the counters, each pool once") {
        const auto job = start_job(2, 2, 2);
        std::vector<ClientStats> stats(2);
        each_worker(*job, [&](uint32_t i) {
            auto client = std::move(job->make_client(i)).value();
            auto table = std::move(client.create_table<float>("t", dense_options(kMiB))).value();
            const auto mine = client.make_buffer<float>((i + 1) * kMiB);
            REQUIRE(mine.has_value());
            std::vector<uint64_t> keys(100);
            std::iota(keys.begin(), keys.end(), 10);
            const std::vector<float> ones(keys.size(), 1.0F);
            CHECK(table.push(keys, ones).wait().has_value());
            CHECK(client.barrier().has_value());
            stats[i] = std::move(client.stats()).value();
            CHECK(client.barrier().has_value());
            std::vector<float> plain(1000);
            {
                const auto registration =
                    client.register_memory(std::as_writable_bytes(std::span(plain)));
                REQUIRE(registration.has_value());
                CHECK(std::move(client.stats()).value().registered_bytes ==
                      stats[i].registered_bytes + 4000);
            }
            CHECK(std::move(client.stats()).value().registered_bytes == stats[i].registered_bytes);
            CHECK(client.leave().has_value());
        });
        // small_pools(): 16 MiB each, one for the servers of this process and one for its workers
        CHECK(stats[0].registered_bytes + stats[1].registered_bytes == 16 * kMiB);
        for (size_t i = 0; i < 2; ++i) {
            CHECK(stats[i].used_bytes >= (i + 1) * 4 * kMiB);
            CHECK(stats[i].used_bytes < (i + 1) * 4 * kMiB + kMiB);
            CHECK(stats[i].servers_registered_bytes % (16 * kMiB) == 0);
            CHECK(stats[i].servers_registered_bytes >= 16 * kMiB);
            CHECK(stats[i].servers_used_bytes >= 4 * kMiB);
            CHECK(stats[i].servers_used_bytes <= stats[i].servers_registered_bytes);
            CHECK(stats[i].servers_lists_remembered > 0);
        }
        CHECK(job->serve().has_value());
    }

    TEST_CASE("a client that is destroyed without leave() is named as that") {
        const auto job = start_job(1, 1, 2);
        Status barrier;
        each_worker(*job, [&](uint32_t i) {
            auto client = std::move(job->make_client(i)).value();
            if (i == 1) return;  // an early return
            barrier = client.barrier();
            CHECK(client.leave(barrier).has_value());
        });
        CHECK(barrier.code() == Errc::kPeerLost);
        CHECK(barrier.error().text().find("worker 1's client was destroyed without leave()") !=
              std::string::npos);
        CHECK_FALSE(job->serve().has_value());
    }

    TEST_CASE("run_workers makes clients, leaves for the workers, and tells the cause") {
        const auto job = start_job(1, 1, 3);
        const Status done = job->run_workers([&](Client& client) -> Status {
            if (client.worker() == 1) return Error(Errc::kIo, "disk full");
            return client.barrier();
        });
        CHECK(done.code() == Errc::kIo);
        CHECK(done.error().text() == "worker 1: disk full");
        CHECK_FALSE(job->serve().has_value());
        const auto other = start_job(1, 1, 2);
        CHECK(other->run_workers([](Client& client) { return client.barrier(); }).has_value());
        CHECK(other->serve().has_value());
    }

    TEST_CASE("a worker function may call leave() itself, and what that returned counts") {
        const auto job = start_job(1, 1, 2);
        const Status done = job->run_workers([](Client& client) -> Status {
            WEIR_TRY(client.barrier());
            WEIR_TRY(client.leave());
            CHECK(client.leave().has_value());  // only the first one counts
            return {};
        });
        CHECK_MESSAGE(done.has_value(), done.error().text());
        CHECK(job->serve().has_value());
        const auto other = start_job(1, 1, 1);
        const Status failed = other->run_workers([](Client& client) -> Status {
            WEIR_TRY(client.leave());
            return Error(Errc::kIo, "disk full");
        });
        CHECK(failed.code() == Errc::kIo);
        CHECK(other->serve().has_value());
    }

    TEST_CASE("a worker number above the count is refused, and the job goes on") {
        const auto job = start_job(1, 1, 1);
        for (const uint32_t number : {1U, ~0U}) {
            const auto client = job->make_client(number);
            CHECK(client.code() == Errc::kInvalidArgument);
            CHECK(client.error().message().find("this process has 1 workers") != std::string::npos);
        }
        CHECK(job->run_workers([](Client& client) { return client.barrier(); }).has_value());
        CHECK(job->serve().has_value());
    }

    TEST_CASE("a worker function that takes its client away ends with an error") {
        const auto job = start_job(1, 1, 1);
        const Status done = job->run_workers([](Client& client) -> Status {
            const Client taken = std::move(client);
            return {};
        });
        CHECK(done.code() == Errc::kUnavailable);
        CHECK_FALSE(job->serve().has_value());  // `taken` was destroyed without leave()
    }

    TEST_CASE("a job of many shards starts, also where messages are short") {
        JobOptions options;
        options.shards_per_server = 100;
        const Config config(
            Environment(Environment::Map{{"WEIR_POOL_MIB", "64"}, {"WEIR_EAGER_BYTES", "0"}}));
        const auto job = Job::start(options, config);
        REQUIRE(job.has_value());
        auto client = (*job)->make_client(0);
        REQUIRE(client.has_value());
        auto table = std::move(client->create_table<float>("many", dense_options(10'000))).value();
        std::vector<float> values(10'000, 3.0F);
        REQUIRE(table.push(KeyRange{0, 10'000}, values).wait().has_value());
        std::vector<float> out(10'000);
        REQUIRE(table.pull(KeyRange{0, 10'000}, out).wait().has_value());
        CHECK(out == values);
        REQUIRE(client->leave().has_value());
        CHECK((*job)->serve().has_value());
    }

    TEST_CASE("more shards than the ring has room for are refused before anything starts") {
        JobOptions options;
        options.servers = 17;
        options.shards_per_server = 4096;
        const auto job = Job::start(options, small_pools());
        REQUIRE(job.code() == Errc::kInvalidArgument);
        CHECK(job.error().message().find("69632 shards are more than the 65536") !=
              std::string::npos);
    }

    TEST_CASE("a worker that never comes is named when the time to join is over") {
        // On a busy machine the first times may be too short for the others to join.
        CHECK((names_missing_worker(1) || names_missing_worker(5) || names_missing_worker(30)));
    }

    TEST_CASE("a worker that leaves waits until its pushes and pulls have ended") {
        const auto job = start_job(2, 1, 2);
        each_worker(*job, [&](uint32_t i) {
            auto client = std::move(job->make_client(i)).value();
            auto table = std::move(client.create_table<float>("t", dense_options(kMiB))).value();
            if (i == 1) {
                CHECK(client.barrier().has_value());
                CHECK(client.leave().has_value());
                return;
            }
            CHECK(client.barrier().has_value());
            const std::vector<float> ones(kMiB / 4, 1.0F);
            std::vector<float> pulled(kMiB);
            std::vector<Task> open;
            for (uint64_t part = 0; part < 4; ++part)
                open.push_back(table.push(KeyRange{part * kMiB / 4, (part + 1) * kMiB / 4}, ones));
            open.push_back(table.pull(KeyRange{0, kMiB}, pulled));
            CHECK(client.leave().has_value());
            for (Task& task : open)
                CHECK(task.wait().has_value());
        });
        CHECK(job->serve().has_value());
    }

    TEST_CASE("two jobs in one process do not see each other") {
        const auto first = start_job(1, 1, 1);
        const auto second = start_job(1, 1, 1);
        auto a = std::move(first->make_client(0)).value();
        auto b = std::move(second->make_client(0)).value();
        auto table = std::move(a.create_table<float>("t", dense_options(4))).value();
        CHECK(b.open_table<float>("t").code() == Errc::kNotFound);
        REQUIRE(a.leave().has_value());
        REQUIRE(b.leave().has_value());
    }
}

}  // namespace weir::test

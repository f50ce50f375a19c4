// SPDX-License-Identifier: Apache-2.0
/// \file
/// Client::allreduce() and broadcast() in real jobs.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "lib/weir.h"
#include "tests/job/small_job.h"
#include "transport/net/reserved_port.h"

namespace weir::test {

namespace {

std::string said(const Status& status) {
    return status ? "ok" : status.error().text();
}

bool has(const Status& status, std::string_view words) {
    return said(status).find(words) != std::string::npos;
}

bool names_workers_0_and_1(const Status& status) {
    return has(status, "workers 0 and 1 called") || has(status, "workers 1 and 0 called");
}

/// Worker w's value i.
template <Value T>
T value(uint32_t worker, size_t i) {
    return static_cast<T>((i * 7 + worker * 5) % 11);
}

/// What `workers` make of value i.
template <Value T>
T expected(Reduce how, uint32_t workers, size_t i) {
    T sum = 0;
    T most = value<T>(0, i);
    T least = most;
    for (uint32_t w = 0; w < workers; ++w) {
        const T mine = value<T>(w, i);
        sum = static_cast<T>(sum + mine);
        most = std::max(most, mine);
        least = std::min(least, mine);
    }
    if (how == Reduce::kMax) return most;
    if (how == Reduce::kMin) return least;
    return how == Reduce::kMean ? sum / static_cast<T>(workers) : sum;
}

template <Value T>
std::vector<T> values_of(uint32_t worker, size_t count) {
    std::vector<T> values(count);
    for (size_t i = 0; i < count; ++i)
        values[i] = value<T>(worker, i);
    return values;
}

template <Value T>
Status all_operations(Client& client, uint32_t workers, size_t count) {
    for (const Reduce how : {Reduce::kSum, Reduce::kMax, Reduce::kMin, Reduce::kMean}) {
        if (how == Reduce::kMean && !is_floating(value_type_of<T>())) continue;
        std::vector<T> values = values_of<T>(client.worker(), count);
        WEIR_TRY(client.allreduce(values, how));
        for (size_t i = 0; i < count; ++i)
            REQUIRE(values[i] == expected<T>(how, workers, i));
    }
    for (uint32_t from = 0; from < workers; ++from) {
        std::vector<T> values = values_of<T>(client.worker(), count);
        WEIR_TRY(client.broadcast(values, from));
        REQUIRE(values == values_of<T>(from, count));
    }
    return {};
}

Status all_types(Client& client, uint32_t workers) {
    for (const size_t count : {size_t{1}, size_t{1000}, size_t{0}, size_t{15}, size_t{16},
                               size_t{1000}, size_t{65536}, size_t{3}}) {
        CAPTURE(count);
        WEIR_TRY(all_operations<double>(client, workers, count));
        WEIR_TRY(all_operations<float>(client, workers, count));
        WEIR_TRY(all_operations<int32_t>(client, workers, count));
        WEIR_TRY(all_operations<int64_t>(client, workers, count));
        WEIR_TRY(all_operations<uint32_t>(client, workers, count));
        WEIR_TRY(all_operations<uint64_t>(client, workers, count));
    }
    return {};
}

/// A job of one process, which others join.
struct OpenToJoin {
    explicit OpenToJoin(const JobOptions& options) {
        auto started = Job::start(
            options, with({{"WEIR_RENDEZVOUS", at}, {"WEIR_RANK", "0"}, {"WEIR_SIZE", "1"}}));
        REQUIRE(started.has_value());
        job = std::move(*started);
    }

    [[nodiscard]] std::unique_ptr<Job> join(bool has_iterations = true, uint32_t shards = 0,
                                            uint32_t workers = 1) const {
        JoinOptions options;
        options.contact = at;
        options.shards = shards;
        options.workers = workers;
        options.has_iterations = has_iterations;
        auto joined = Job::join(options, with({}));
        REQUIRE(joined.has_value());
        return std::move(*joined);
    }

    static Config with(Environment::Map variables) {
        variables.emplace("WEIR_POOL_MIB", "16");
        return Config(Environment(std::move(variables)));
    }

    Result<transport::ReservedPort> port = transport::ReservedPort::make();
    std::string at = fmt::format("127.0.0.1:{}", port.value().number());
    std::unique_ptr<Job> job;
};

}  // namespace

TEST_SUITE("collectives") {
    TEST_CASE("allreduce and broadcast give all workers the same, of all types and sizes") {
        const char* transport = "shm";
        SUBCASE("over shared memory") {}
        SUBCASE("over tcp") {
            transport = "tcp";
        }
        const Config config(
            Environment(Environment::Map{{"WEIR_POOL_MIB", "16"}, {"WEIR_TRANSPORT", transport}}));
        auto job = Job::start({.servers = 1, .shards_per_server = 3, .workers = 3}, config);
        REQUIRE(job.has_value());
        const Status outcome =
            (*job)->run_workers([](Client& client) { return all_types(client, 3); });
        CHECK_MESSAGE(outcome, said(outcome));
        CHECK((*job)->serve());
    }

    TEST_CASE("extremes of values with signs, a single number, an array and a Buffer") {
        auto job = start_job(1, 2, 2);
        const Status outcome = job->run_workers([](Client& client) -> Status {
            const bool is_first = client.worker() == 0;
            std::array<double, 3> numbers =
                is_first ? std::array{-1.5, -0.0, 1e300} : std::array{-2.5, -3.0, -1e300};
            WEIR_TRY(client.allreduce(numbers, Reduce::kMax));
            CHECK(numbers == std::array{-1.5, -0.0, 1e300});
            int64_t least = is_first ? -5 : std::numeric_limits<int64_t>::min();
            WEIR_TRY(client.allreduce(std::span(&least, 1), Reduce::kMin));
            CHECK(least == std::numeric_limits<int64_t>::min());
            uint64_t most = is_first ? 3 : std::numeric_limits<uint64_t>::max();
            WEIR_TRY(client.allreduce(std::span(&most, 1), Reduce::kMax));
            CHECK(most == std::numeric_limits<uint64_t>::max());
            int32_t wraps = std::numeric_limits<int32_t>::max();
            WEIR_TRY(client.allreduce(std::span(&wraps, 1)));
            CHECK(wraps == -2);
            WEIR_ASSIGN(auto buffer, client.make_buffer<float>(2));
            buffer[0] = 1.0F + static_cast<float>(client.worker());
            WEIR_TRY(client.allreduce(buffer, Reduce::kMean));
            CHECK(buffer[0] == 1.5F);
            return {};
        });
        CHECK_MESSAGE(outcome, said(outcome));
        CHECK(job->serve());
    }

    TEST_CASE(
        "workers that do not call the same hear both their names, and the next call is right") {
        auto job = start_job(2, 2, 2);
        const Status outcome = job->run_workers([](Client& client) -> Status {
            const bool is_first = client.worker() == 0;
            const auto differ = [&](const Status& status) -> Status {
                CHECK(status.code() == Errc::kDifferentArguments);
                CHECK_MESSAGE(names_workers_0_and_1(status), said(status));
                std::vector<double> one = {1};
                WEIR_TRY(client.allreduce(one));
                CHECK(one[0] == 2);
                return Status();
            };
            std::vector<double> values(is_first ? 10 : 500, 1);
            const Status sizes = client.allreduce(values);
            CHECK(has(sizes, is_first ? "allreduce (sum of 10 float64 values): "
                                      : "allreduce (sum of 500 float64 values): "));
            WEIR_TRY(differ(sizes));
            CHECK(values == std::vector<double>(values.size(), 1));
            values.resize(10);
            WEIR_TRY(differ(client.allreduce(values, is_first ? Reduce::kSum : Reduce::kMax)));
            std::vector<int64_t> numbers(10, 1);
            WEIR_TRY(differ(is_first ? client.allreduce(values) : client.allreduce(numbers)));
            WEIR_TRY(differ(client.broadcast(values, client.worker())));
            WEIR_TRY(differ(is_first ? client.broadcast(values, 0) : client.allreduce(values)));
            // One of them has none to give.
            return differ(client.allreduce(std::span(values).first(is_first ? 0 : 10)));
        });
        CHECK_MESSAGE(outcome, said(outcome));
        CHECK(job->serve());
    }

    TEST_CASE(
        "a NaN or an infinity fails a reduction for all and is named, and a broadcast takes it") {
        auto job = start_job(1, 2, 2);
        const Status outcome = job->run_workers([](Client& client) -> Status {
            const bool is_first = client.worker() == 0;
            for (const Reduce how : {Reduce::kSum, Reduce::kMax, Reduce::kMin, Reduce::kMean}) {
                std::vector<float> values(40, 1);
                if (is_first) values[17] = std::numeric_limits<float>::quiet_NaN();
                const Status refused = client.allreduce(values, how);
                INFO(said(refused));
                if (is_first) {
                    CHECK(refused.code() == Errc::kNotFinite);
                    CHECK(has(refused, "of 40 float32 values): value 17 of this worker is a NaN"));
                } else {
                    CHECK(refused.code() == Errc::kDifferentArguments);
                    CHECK(names_workers_0_and_1(refused));
                    CHECK(has(refused, "or one of them a NaN or an infinity"));
                    CHECK(values == std::vector<float>(40, 1));
                }
            }
            std::vector<double> all = {1, std::numeric_limits<double>::infinity()};
            const Status both = client.allreduce(all);
            CHECK(both.code() == Errc::kNotFinite);
            CHECK(all[0] == 1);
            std::vector<double> given = {is_first ? std::numeric_limits<double>::quiet_NaN() : 3};
            WEIR_TRY(client.broadcast(given, 0));
            CHECK(std::isnan(given[0]));
            std::vector<double> one = {1};
            WEIR_TRY(client.allreduce(one));
            CHECK(one[0] == 2);
            return {};
        });
        CHECK_MESSAGE(outcome, said(outcome));
        CHECK(job->serve());
    }

    TEST_CASE("a deadline ends the call of all workers, who hear whose it was") {
        auto job = start_job(1, 2, 2);
        std::atomic<bool> is_over = false;
        const Status outcome = job->run_workers([&](Client& client) -> Status {
            std::vector<float> values(100, 1);
            if (client.worker() == 0) {
                const Status late =
                    client.allreduce(values, Reduce::kSum, std::chrono::milliseconds(20));
                CHECK(late.code() == Errc::kDeadline);
                CHECK(has(late, "allreduce (sum of 100 float32 values): "));
                CHECK(values == std::vector<float>(100, 1));
                is_over = true;
            } else {
                while (!is_over)
                    std::this_thread::sleep_for(std::chrono::milliseconds(1));
                const Status withdrawn = client.allreduce(values);
                // Its part may have arrived, and not be back yet.
                const bool got_all = withdrawn && values == std::vector<float>(100, 2);
                if (!got_all) {
                    CHECK(withdrawn.code() == Errc::kCancelled);
                    CHECK_MESSAGE(has(withdrawn, "worker 0 withdrew"), said(withdrawn));
                    CHECK(values == std::vector<float>(100, 1));
                }
                values.assign(100, 1);
            }
            WEIR_TRY(client.allreduce(values));
            CHECK(values == std::vector<float>(100, 2));
            return {};
        });
        CHECK_MESSAGE(outcome, said(outcome));
        CHECK(job->serve());
    }

    TEST_CASE("a worker that gives up is named; with kContinue the others go on") {
        JobOptions options{.servers = 1, .shards_per_server = 2, .workers = 3};
        bool goes_on = false;
        SUBCASE("stops") {}
        SUBCASE("goes on") {
            goes_on = true;
        }
        if (goes_on) options.on_worker_loss = OnWorkerLoss::kContinue;
        auto job = start_job(options);
        each_worker(*job, [&](uint32_t i) {
            auto client = std::move(job->make_client(i)).value();
            std::vector<double> values(40, 1.0 + client.worker());
            REQUIRE(client.allreduce(values));
            CHECK(values[39] == 6);
            if (client.worker() == 1) {
                (void)client.leave(Error(Errc::kIo, "no data"));
                return;
            }
            std::vector<double> ones(40, 1);
            const Status lost = client.allreduce(ones);
            if (!goes_on) {
                CHECK(lost.code() == Errc::kPeerLost);
                CHECK_MESSAGE(has(lost, "worker 1 "), said(lost));
                CHECK_MESSAGE(!has(lost, "iteration"), said(lost));
                return (void)client.leave();
            }
            CHECK_MESSAGE(lost, said(lost));
            CHECK(ones[0] == 2);
            const Status gone = client.broadcast(values, 1);
            CHECK(gone.code() == Errc::kPeerLost);
            CHECK_MESSAGE(has(gone, "worker 1 has not brought the values"), said(gone));
            std::vector<double> means(20, client.worker());
            const Status mean = client.allreduce(means, Reduce::kMean);
            CHECK_MESSAGE(mean, said(mean));
            CHECK(means[19] == 1);
            CHECK(client.leave());
        });
        (void)job->serve();
    }

    TEST_CASE("one that joins takes part from a call on, and is not waited for once it has left") {
        const OpenToJoin open({.shards_per_server = 2});
        auto client = std::move(open.job->make_client(0)).value();
        const auto count_workers = [](Client& of) {
            std::array<int32_t, 30> ones{};
            ones.fill(1);
            const Status counted = of.allreduce(ones);
            CHECK_MESSAGE(counted, said(counted));
            return ones[29];
        };
        CHECK(count_workers(client) == 1);
        const auto joined = open.join();
        std::atomic<bool> has_left = false;
        std::thread joining([&] {
            const Status worked = joined->run_workers([&](Client& mine) -> Status {
                for (int i = 0; i < 20; ++i)
                    CHECK(count_workers(mine) == 2);
                return {};
            });
            has_left = true;
            CHECK_MESSAGE(worked, said(worked));
        });
        int together = 0;
        while (!has_left)
            together += count_workers(client) == 2 ? 1 : 0;
        joining.join();
        CHECK(together == 20);
        CHECK(count_workers(client) == 1);
        // One that takes part in no iterations is refused, and nobody waits for it.
        const auto reads = open.join(false);
        const Status read = reads->run_workers([&](Client& mine) -> Status {
            std::vector<float> values(3);
            const Status refused = mine.allreduce(values);
            CHECK(refused.code() == Errc::kInvalidArgument);
            CHECK_MESSAGE(has(refused, "JoinOptions::has_iterations"), said(refused));
            return {};
        });
        CHECK_MESSAGE(read, said(read));
        CHECK(count_workers(client) == 1);
        CHECK(client.leave());
        CHECK(open.job->serve());
    }

    TEST_CASE("servers come and go while workers reduce and take means: each part counts once") {
        JobOptions options{.shards_per_server = 2, .workers = 2};
        const OpenToJoin open(options);
        std::atomic<bool> is_over = false;
        const auto work = [&](Client& client) -> Status {
            WEIR_ASSIGN(auto table,
                        client.create_table<double>("means", {.layout = Layout::kDense,
                                                              .key_count = 300,
                                                              .combine = Combine::kMean}));
            const float me = static_cast<float>(client.worker());
            std::vector<double> values(300);
            for (uint64_t turn = 1;; ++turn) {
                const size_t count = turn % 2 == 0 ? 2 : 60'000;
                std::vector<float> reduced(count, 1 + me);
                WEIR_TRY(client.allreduce(reduced));
                if (reduced != std::vector<float>(count, 3)) return Error(Errc::kIo, "a wrong sum");
                std::ranges::fill(values, 1 + me);
                WEIR_TRY(table.push(KeyRange{0, 300}, values, {.iteration = turn}).wait());
                WEIR_TRY(table.pull(KeyRange{0, 300}, values, {.iteration = turn}).wait());
                if (values != std::vector<double>(300, 1.5 * static_cast<double>(turn)))
                    return Error(Errc::kIo, "a wrong mean");
                std::array<int32_t, 1> goes_on = {is_over ? 0 : 1};
                WEIR_TRY(client.broadcast(goes_on, 0));
                if (goes_on[0] == 0) return {};
            }
        };
        Status worked;
        std::thread working([&] { worked = open.job->run_workers(work); });
        std::unique_ptr<Job> before;
        for (int round = 0; round < 3; ++round) {
            std::unique_ptr<Job> next = open.join(true, 2, 0);
            Job& oldest = before == nullptr ? *open.job : *before;
            const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
            Status leaving = oldest.leave();
            while (!leaving && std::chrono::steady_clock::now() < until) {
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
                leaving = oldest.leave();
            }
            CHECK_MESSAGE(leaving, said(leaving));
            if (before != nullptr) CHECK(before->serve());
            before = std::move(next);
        }
        is_over = true;
        working.join();
        CHECK_MESSAGE(worked, said(worked));
        CHECK(before->serve());
        CHECK(open.job->serve());
    }

    TEST_CASE(
        "with kReassign a call ends with its round of work, and counts the workers of the next") {
        JobOptions options{.shards_per_server = 2};
        options.on_worker_loss = OnWorkerLoss::kReassign;
        const OpenToJoin open(options);
        auto client = std::move(open.job->make_client(0)).value();
        /// Counts workers in rounds of work until `wanted` have taken part.
        const auto count_to = [](Client& of, int32_t wanted) -> Status {
            while (true) {
                WEIR_ASSIGN(const WorkShare share, of.take_work(4));
                while (true) {
                    std::array<int32_t, 3> ones{1, 1, 1};
                    const Status counted = of.allreduce(ones);
                    if (counted.code() == Errc::kReassigned) break;
                    WEIR_TRY(counted);
                    if (ones[2] != static_cast<int32_t>(share.worker_count))
                        return Error(Errc::kProtocol, "counted others than those of the round");
                    if (ones[2] == wanted) return {};
                }
            }
        };
        REQUIRE(said(count_to(client, 1)) == "ok");
        std::thread joining([&] {
            const auto joined = open.join();
            auto mine = std::move(joined->make_client(0)).value();
            CHECK(said(count_to(mine, 2)) == "ok");
            CHECK(said(mine.give_back_work()) == "ok");
            CHECK(mine.leave());
        });
        CHECK(said(count_to(client, 2)) == "ok");
        joining.join();
        std::vector<float> values(3);
        CHECK(client.allreduce(values).code() == Errc::kReassigned);
        CHECK(said(count_to(client, 1)) == "ok");
        CHECK(client.leave());
        CHECK(open.job->serve());
    }

    TEST_CASE("what cannot be is refused with words that say so") {
        auto job = start_job(1, 1, 1);
        auto client = std::move(job->make_client(0)).value();
        std::vector<float> many(65537);
        const Status large = client.allreduce(many);
        CHECK(large.code() == Errc::kInvalidArgument);
        CHECK(
            said(large) ==
            "allreduce (sum of 65537 float32 values): at most 65536 values go into one call; make "
            "several, or use a table with the rule `sum`");
        std::vector<int32_t> numbers(2);
        const Status mean = client.allreduce(numbers, Reduce::kMean);
        CHECK(mean.code() == Errc::kTypeMismatch);
        CHECK(said(mean) ==
              "allreduce (mean of 2 int32 values): a mean of integers would be rounded; take their "
              "sum, or use a floating type");
        CHECK(client.broadcast(numbers, 7).code() == Errc::kPeerLost);
        for (const Status& name : {Status(client.create_table<float>("weir.mine", {}).error()),
                                   client.drop_table("weir.collectives")}) {
            CHECK(name.code() == Errc::kInvalidArgument);
            CHECK(has(name, "names that begin with 'weir.' are kept for tables of Weir's own"));
        }
        auto table = std::move(client.create_table<float>("t", {})).value();
        const std::vector<uint64_t> keys = {1};
        const std::vector<float> one = {1};
        Status within;
        Task push = table.push(keys, one);
        REQUIRE(push.then([&](const Status&) { within = client.allreduce(many); }));
        REQUIRE(push.wait());
        CHECK(within.code() == Errc::kInvalidArgument);
        CHECK(has(within, "a handler of a task must not wait"));
        CHECK(client.leave());
        const Status late = client.allreduce(numbers);
        CHECK_FALSE(late);
        CHECK(job->serve());
    }
}

}  // namespace weir::test

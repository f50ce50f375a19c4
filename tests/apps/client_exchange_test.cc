// SPDX-License-Identifier: Apache-2.0
/// \file
/// The solver's exchange and one whole training over a real job in this process.

#include "lib/apps/lr/client_exchange.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

#include "lib/base/prox.h"
#include "tests/job/small_job.h"

namespace weir::apps {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Longer than any test may take.
constexpr seconds kNoDeadline{3600};

std::unique_ptr<Job> start(uint32_t workers, milliseconds deadline = kNoDeadline) {
    JobOptions options;
    options.servers = 2;
    options.shards_per_server = 2;
    options.workers = workers;
    options.add_rules = add_exchange_rules;
    auto job = Job::start(
        options,
        Config(Environment(Environment::Map{
            {"WEIR_POOL_MIB", "16"}, {"WEIR_DEADLINE_MS", std::to_string(deadline.count())}})));
    REQUIRE(job.has_value());
    return std::move(*job);
}

data::Part place_of(const Client& client) {
    return {client.worker(), client.worker_count()};
}

/// One worker's checks; what fails is an error, since doctest's are for one thread.
Status exchange_of(Client& client) {
    constexpr double kL1 = 0.5;
    WEIR_ASSIGN(const std::unique_ptr<ClientExchange> exchange,
                ClientExchange::make(client, "t", kL1, place_of(client)));
    const auto wrong = [](const char* what) { return Error(Errc::kIo, what); };
    const double me = exchange->worker_index();
    for (int round = 1; round <= 3; ++round) {
        std::vector<double> values{me, 1, -me * round};
        WEIR_TRY(exchange->sum(values));
        if (values != std::vector<double>{3, 3, -3.0 * round}) return wrong("sum");
        values = {me, -me};
        WEIR_TRY(exchange->max(values));
        if (values != std::vector<double>{2, 0}) return wrong("max");
    }
    // Key 5 is everybody's, 10 + i is worker i's own.
    const std::vector<uint64_t> keys{5, 10 + exchange->worker_index()};
    WEIR_ASSIGN(const std::span<double> by_key, exchange->make_buffer(2));
    by_key[0] = me + 1;
    by_key[1] = me;
    WEIR_TRY(exchange->sum_by_key(keys, by_key));
    if (by_key[0] != 6 || by_key[1] != me) return wrong("sum_by_key");

    by_key[0] = me + 1;
    by_key[1] = -me;
    WEIR_TRY(exchange->max_by_key(keys, by_key));
    if (by_key[0] != 3 || by_key[1] != -me) return wrong("max_by_key");

    // Worker 1 gives nothing, worker 2 does not want the result.
    const std::vector<uint64_t> parts[] = {{1, ~uint64_t{0}}, {}, {(uint64_t{1} << 53) + 1}};
    const std::vector<uint64_t> whole{1, ~uint64_t{0}, (uint64_t{1} << 53) + 1};
    for (int round = 1; round <= 2; ++round) {
        std::vector<uint64_t> all(me == 2 ? 0 : 3);
        WEIR_TRY(exchange->concatenate(me == 0 ? 0 : 2, parts[exchange->worker_index()], all));
        if (me != 2 && all != whole) return wrong("concatenate");
    }

    ProxState<double> expected;
    for (uint64_t iteration = 1; iteration <= 4; ++iteration) {
        const std::vector<double> pairs{1 + me, 2, 0, 1};
        std::vector<double> weights(2, 99);
        exchange->push(iteration, keys, pairs, 0);
        exchange->pull(iteration, keys, weights);
        WEIR_TRY(exchange->wait(iteration));
        expected = prox_l1_step<double>(expected, 6, 6, kL1);
        if (weights != std::vector<double>{expected.weight, 0}) return wrong("prox");
    }
    return exchange->barrier();
}

/// Everything in which a worker waits for the others.
struct Wait {
    const char* name;
    std::function<Status(ClientExchange&, uint64_t iteration)> run;
};

std::vector<Wait> all_waits() {
    static const std::vector<uint64_t> keys{3, 5};
    return {
        {"sum",
         [](ClientExchange& exchange, uint64_t) {
             std::vector<double> values(2);
             return exchange.sum(values);
         }},
        {"max",
         [](ClientExchange& exchange, uint64_t) {
             std::vector<double> values(2);
             return exchange.max(values);
         }},
        {"sum_by_key",
         [](ClientExchange& exchange, uint64_t) {
             std::vector<double> values(2);
             return exchange.sum_by_key(keys, values);
         }},
        {"max_by_key",
         [](ClientExchange& exchange, uint64_t) {
             std::vector<double> values(2);
             return exchange.max_by_key(keys, values);
         }},
        {"concatenate",
         [](ClientExchange& exchange, uint64_t) {
             std::vector<uint64_t> all(exchange.worker_count());
             const std::vector<uint64_t> mine(1);
             return exchange.concatenate(exchange.worker_index(), mine, all);
         }},
        {"an iteration",
         [](ClientExchange& exchange, uint64_t iteration) {
             const std::vector<double> pairs(4, 1.0);
             std::vector<double> weights(2);
             const WaitAtExit wait_at_exit(exchange);
             exchange.push(iteration, keys, pairs, 0);
             exchange.pull(iteration, keys, weights);
             return exchange.wait(iteration);
         }},
        {"barrier", [](ClientExchange& exchange, uint64_t) { return exchange.barrier(); }},
    };
}

/// Two workers, one of which computes for longer than the deadline of a request before each wait.
/// False: a worker got an error.
bool is_waited_for(milliseconds deadline) {
    const auto job = start(2, deadline);
    std::vector<std::string> failed(2);
    test::each_worker(*job, [&](uint32_t i) {
        auto client = job->make_client(i);
        if (!client) {
            failed[i] = client.error().message();
            return;
        }
        auto exchange = ClientExchange::make(*client, "t", 0.5, place_of(*client));
        if (!exchange) failed[i] = exchange.error().message();
        uint64_t iteration = 0;
        for (const Wait& wait : all_waits()) {
            if (!failed[i].empty()) break;
            if (iteration++ % 2 == i) std::this_thread::sleep_for(deadline * 3 / 2);
            const Status status = wait.run(**exchange, iteration == 6 ? 1 : 0);
            if (!status) failed[i] = std::string(wait.name) + ": " + status.error().message();
        }
        (void)client->leave();
    });
    const bool served = job->serve().has_value();
    for (const std::string& why : failed) {
        if (!why.empty()) MESSAGE("with a deadline of " << deadline.count() << " ms: " << why);
    }
    return served && failed[0].empty() && failed[1].empty();
}

}  // namespace

TEST_SUITE("client exchange") {
    TEST_CASE("sums, maxima and weights are those of all workers, round after round") {
        const auto job = start(3);
        std::vector<Status> outcomes(3);
        test::each_worker(*job, [&](uint32_t i) {
            auto client = job->make_client(i);
            if (!client) {
                outcomes[i] = std::move(client).error();
                return;
            }
            outcomes[i] = exchange_of(*client);
            (void)client->leave(outcomes[i]);
        });
        for (const Status& outcome : outcomes)
            CHECK_MESSAGE(outcome, (outcome ? "" : outcome.error().message()));
        CHECK(job->serve().has_value());
    }

    TEST_CASE("a worker that computes for longer than the deadline is waited for") {
        // On a busy machine a server's own answer may take longer than the first two.
        CHECK((is_waited_for(milliseconds(100)) || is_waited_for(seconds(1)) ||
               is_waited_for(seconds(5))));
    }

    TEST_CASE("a worker that dies ends the waiting of the others at once") {
        for (const Wait& wait : all_waits()) {
            CAPTURE(wait.name);
            const auto job = start(3);
            std::vector<Status> outcomes(3);
            std::atomic<uint32_t> past_barrier{0};
            test::each_worker(*job, [&](uint32_t i) {
                auto client = std::move(job->make_client(i)).value();
                auto exchange =
                    std::move(ClientExchange::make(client, "t", 0.5, place_of(client))).value();
                const Status together = exchange->barrier();
                ++past_barrier;
                if (i == 2) {
                    while (past_barrier < 3)
                        std::this_thread::yield();
                    std::this_thread::sleep_for(milliseconds(50));  // the others wait by then
                    return;                                         // without leaving
                }
                if (!together) return;
                outcomes[i] = wait.run(*exchange, 1);
                (void)client.leave(outcomes[i]);
            });
            CHECK(outcomes[0].code() == Errc::kPeerLost);
            CHECK(outcomes[1].code() == Errc::kPeerLost);
            CHECK_FALSE(job->serve().has_value());
        }
    }

    TEST_CASE(
        "all workers learn with the weights which features rest by the sum of their gradients") {
        const auto job = start(2);
        std::vector<Status> outcomes(2);
        std::vector<std::vector<double>> weights(2, std::vector<double>(20));
        test::each_worker(*job, [&](uint32_t i) {
            auto client = std::move(job->make_client(i)).value();
            auto exchange =
                std::move(ClientExchange::make(client, "t", 1, place_of(client))).value();
            std::vector<uint64_t> keys(20);  // a list that travels by its hash, and by two shards
            std::iota(keys.begin(), keys.end(), 1);
            std::vector<double> pairs(40, 1);
            for (size_t k = 0; k < 20; ++k)  // sums: 0.5, 0.95, 3
                pairs[2 * k] = k % 3 == 0 ? (i == 0 ? 2.5 : -2) : k % 3 == 1 ? 0.475 : 1.5;
            exchange->push(1, keys, pairs, 0.9);
            exchange->pull(1, keys, weights[i]);
            outcomes[i] = exchange->wait(1);
        });
        for (uint32_t i = 0; i < 2; ++i) {
            REQUIRE(outcomes[i]);
            for (size_t k = 0; k < 20; ++k) {
                CHECK(is_at_rest(weights[i][k]) == (k % 3 == 0));
                CHECK((weights[i][k] != 0) == (k % 3 == 2));
            }
        }
    }

    TEST_CASE("workers with different bounds of rest are told so") {
        const auto job = start(2);
        std::vector<Status> outcomes(2);
        test::each_worker(*job, [&](uint32_t i) {
            auto client = std::move(job->make_client(i)).value();
            auto exchange =
                std::move(ClientExchange::make(client, "t", 1, place_of(client))).value();
            const std::vector<uint64_t> keys{3, 5};
            const std::vector<double> pairs(4, 1);
            exchange->push(1, keys, pairs, 0.5 + 0.25 * i);
            outcomes[i] = exchange->wait(1);
        });
        CHECK((outcomes[0].code() == Errc::kDifferentArguments ||
               outcomes[1].code() == Errc::kDifferentArguments));
    }

    TEST_CASE("wait() at an error returns when nothing of the exchange's is under way any more") {
        constexpr size_t kKeys = 4096;
        const auto job = start(2);
        std::vector<double> weights(kKeys);
        std::vector<Status> outcomes(2);
        test::each_worker(*job, [&](uint32_t i) {
            auto client = std::move(job->make_client(i)).value();
            auto exchange =
                std::move(ClientExchange::make(client, "t", 0.5, place_of(client))).value();
            std::vector<uint64_t> keys(kKeys);
            std::iota(keys.begin(), keys.end(), 1);
            const std::vector<double> pairs(2 * kKeys, 1.0);
            if (i == 1) {
                std::this_thread::sleep_for(milliseconds(200));
                std::vector<double> own(kKeys);
                exchange->push(1, keys, pairs, 0);
                exchange->pull(1, keys, own);
                outcomes[i] = exchange->wait(1);
                exchange->push(2, keys, pairs, 0);
                CHECK(exchange->wait(2).code() == Errc::kPeerLost);
            } else {
                // The first push is refused before it is sent. The pull waits for worker 1.
                const std::vector<double> wrong(2 * kKeys, std::nan(""));
                exchange->push(1, keys, wrong, 0);
                exchange->push(1, keys, pairs, 0);
                exchange->pull(1, keys, weights);
                outcomes[i] = exchange->wait(1);
                std::fill(weights.begin(), weights.end(), -7.0);
                for (int poll = 0; poll < 100; ++poll) {
                    std::this_thread::sleep_for(milliseconds(5));
                    (void)client.stats();
                }
            }
        });
        CHECK(outcomes[0].code() == Errc::kNotFinite);
        CHECK(outcomes[1].has_value());
        CHECK(std::count(weights.begin(), weights.end(), -7.0) == kKeys);
    }
}

}  // namespace weir::apps

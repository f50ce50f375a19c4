// SPDX-License-Identifier: Apache-2.0
/// \file
/// Iterations over a simulated network: the rule runs once, on what all workers pushed.

#include <algorithm>
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"
#include "tests/server/sim_cluster.h"

namespace weir::test {
namespace {

constexpr uint64_t kSummedKeys = 40;
constexpr uint64_t kIterations = 10;
constexpr uint32_t kWorkersMax = 3;

/// What `worker` pushes for `key` in `iteration`; 0: it does not have the key then. Each part is a
/// bit of its own, so that a sum tells which parts are in it.
double part(uint32_t worker, uint64_t iteration, uint64_t key) {
    const uint64_t mixed = mix64(uint64_t{worker} * 1000003 + uint64_t{iteration} * 7919 + key + 1);
    if (mixed % 5 == 0) return 0;
    return static_cast<double>(uint64_t{1} << ((iteration - 1) * kWorkersMax + worker));
}

struct Worker {
    uint64_t iteration = 0;
    ClientCore::CallId push = 0;
    ClientCore::CallId pull = 0;
    std::vector<uint64_t> keys;
    std::vector<double> values;
    std::vector<uint64_t> pulled_keys;
    std::vector<double> pulled;
};

TableSchema schema(Layout layout) {
    return table_of(layout, "sums", kSummedKeys, ValueType::kFloat64);
}

void begin_iteration(SimCluster& cluster, uint32_t number, Worker& w, const TableInfo& table,
                     Random& random) {
    ++w.iteration;
    w.keys.clear();
    w.values.clear();
    const bool nothing = random.below(8) == 0;
    for (uint64_t key = 0; key < kSummedKeys; ++key) {
        const double value = part(number, w.iteration, key);
        if (value == 0 || nothing) continue;
        w.keys.push_back(key);
        w.values.push_back(value);
    }
    CallOptions options;
    options.iteration = w.iteration;
    w.push =
        cluster.workers[number]->push(table, w.keys, std::as_bytes(std::span(w.values)), options);
    w.pulled_keys.resize(kSummedKeys);
    for (uint64_t key = 0; key < kSummedKeys; ++key)
        w.pulled_keys[key] = key;
    w.pulled.assign(kSummedKeys, -1);
    w.pull = cluster.workers[number]->pull(table, w.pulled_keys,
                                           std::as_writable_bytes(std::span(w.pulled)), options);
}

/// What was pushed in a history, and how it ended.
struct IterationHistory {
    std::vector<std::vector<double>> pushed = std::vector<std::vector<double>>(
        kIterations + 1, std::vector<double>(kSummedKeys, 0));  ///< by iteration and key
    /// By iteration: how the first push of it that has ended did so.
    std::vector<std::optional<Errc>> ended = std::vector<std::optional<Errc>>(kIterations + 1);
    uint64_t failed = 0;  ///< iterations
};

/// A pull after iteration `last`: of each iteration it has all parts of a key, or none if the
/// iteration has failed; no worker has pushed a later one.
void check_sums(const IterationHistory& history, uint64_t last, std::span<const double> pulled) {
    for (uint64_t key = 0; key < kSummedKeys; ++key) {
        const auto bits = static_cast<uint64_t>(pulled[key]);
        uint64_t expected = 0;
        for (uint64_t t = 1; t <= last; ++t) {
            const auto parts = static_cast<uint64_t>(history.pushed[t][key]);
            const uint64_t mask = ((uint64_t{1} << kWorkersMax) - 1) << ((t - 1) * kWorkersMax);
            INFO("key " << key << ", iteration " << t);
            REQUIRE(((bits & mask) == parts || (bits & mask) == 0));
            if (history.ended[t] == Errc::kOk) REQUIRE((bits & mask) == parts);
            expected |= bits & mask;
        }
        REQUIRE(bits == expected);
    }
}

/// With `short_memory`, servers have no memory for new keys, sums and what they fetch at some
/// times: iterations fail then, for everybody. Returns how many did.
uint64_t run_history(uint64_t seed, bool short_memory) {
    Random random(seed);
    SimShape shape;
    shape.message_bytes_max = random.below(2) == 0 ? 8192 : 1024;
    shape.fetch_bytes_max = 512;
    shape.eager_bytes = random.below(2) == 0 ? 64 : 4096;
    shape.workers = static_cast<uint32_t>(1 + random.below(kWorkersMax));
    transport::sim::Options options;
    options.maps_memory = random.below(2) == 0;
    options.delay_ns_max = kMicrosecond * (2 + random.below(100));
    options.step_bytes = 64;
    SimCluster cluster(random(), shape, options);
    REQUIRE(cluster.start());
    const Layout layout = random.below(2) == 0 ? Layout::kDense : Layout::kSparse;
    std::vector<TableInfo> tables;
    for (uint32_t i = 0; i < shape.workers; ++i) {
        auto table = cluster.make_table(i, schema(layout));
        REQUIRE(table.has_value());
        tables.push_back(*table);
    }
    std::vector<Worker> workers(shape.workers);
    IterationHistory history;
    uint32_t finished = 0;
    const auto end_iteration = [&](ClientCore& client, Worker& w) {
        const Status push = client.take(w.push);
        const Status pull = client.take(w.pull);
        if (!short_memory) REQUIRE((push.has_value() && pull.has_value()));
        std::optional<Errc>& ended = history.ended[w.iteration];
        if (!ended) {
            ended = push.code();
            if (!push) ++history.failed;
        }
        REQUIRE(push.code() == *ended);  // all workers get the same result
        if (!push) {
            INFO(push.error().message());
            REQUIRE(push.code() == Errc::kNoMemory);
            REQUIRE(push.error().message().find("failed at shard ") != std::string::npos);
            REQUIRE_FALSE(pull.has_value());
        }
        if (pull) return check_sums(history, w.iteration, w.pulled);
        REQUIRE(pull.code() == Errc::kNoMemory);
    };
    const bool over = cluster.run_until([&] {
        for (uint32_t server = 0; short_memory && server < shape.servers; ++server) {
            if (random.below(40) == 0) cluster.memory_of_server(server).set_limit(0);
            if (random.below(20) == 0) cluster.memory_of_server(server).set_limit(~size_t{0});
        }
        for (uint32_t i = 0; i < shape.workers; ++i) {
            Worker& w = workers[i];
            ClientCore& client = *cluster.workers[i];
            if (w.iteration > kIterations) continue;
            if (w.iteration > 0 && (!client.done(w.push) || !client.done(w.pull))) continue;
            if (w.iteration > 0) end_iteration(client, w);
            if (w.iteration == kIterations) {
                ++w.iteration;
                ++finished;
                continue;
            }
            begin_iteration(cluster, i, w, tables[i], random);
            for (size_t k = 0; k < w.keys.size(); ++k)
                history.pushed[w.iteration][w.keys[k]] += w.values[k];
        }
        return finished == shape.workers;
    });
    REQUIRE(over);
    return history.failed;
}

}  // namespace

TEST_SUITE("iteration_history") {
    TEST_CASE("a pull after an iteration has every worker's part once, in hundreds of histories") {
        const uint64_t first = testing::seed_or(1);
        const uint64_t count = std::min<uint64_t>(300, testing::histories_or(300));
        for (uint64_t seed = first; seed < first + count; ++seed) {
            INFO("WEIR_SEED=" << seed);
            CHECK(run_history(seed, false) == 0);
        }
    }

    TEST_CASE("an iteration that fails at a shard fails for everybody, in hundreds of histories") {
        const uint64_t first = testing::seed_or(1);
        const uint64_t count = std::min<uint64_t>(300, testing::histories_or(300));
        uint64_t failed = 0;
        for (uint64_t seed = first; seed < first + count; ++seed) {
            INFO("WEIR_SEED=" << seed);
            failed += run_history(seed, true);
        }
        MESSAGE("failed iterations: " << failed);
        if (count == 300) CHECK(failed > 100);
    }

    TEST_CASE("a worker that dies ends the others' iteration with an error that names it") {
        StartedCluster cluster(5, {}, schema(Layout::kDense));
        const TableInfo& table = cluster.table;
        std::vector<double> values(kSummedKeys, 1);
        CallOptions options;
        options.iteration = 1;
        const auto call = cluster.workers[0]->push(table, KeyRange{0, kSummedKeys},
                                                   std::as_bytes(std::span(values)), options);
        cluster.network.kill(cluster.host_of_worker(2));
        cluster.workers[2].reset();
        const Status ended = cluster.finish(0, call);
        CHECK(ended.code() == Errc::kPeerLost);
        CHECK(ended.error().message().find("worker 2") != std::string::npos);
    }

    TEST_CASE("an iteration for which a worker has done its part ends well after its death") {
        StartedCluster cluster(5, {}, schema(Layout::kDense));
        const TableInfo& table = cluster.table;
        const std::vector<double> values(kSummedKeys, 1);
        const auto push = [&](uint32_t worker, uint64_t iteration) {
            return cluster.workers[worker]->push(table, KeyRange{0, kSummedKeys},
                                                 std::as_bytes(std::span(values)), {iteration, 0});
        };
        (void)push(2, 1);
        const auto first = push(0, 1);
        cluster.run_idle(3);  // both parts are in
        cluster.network.kill(cluster.host_of_worker(2));
        cluster.workers[2].reset();
        cluster.run_idle(200);  // the shards have seen it die
        CHECK_FALSE(cluster.workers[0]->done(first));
        CHECK(cluster.finish(1, push(1, 1)).has_value());
        CHECK(cluster.finish(0, first).has_value());
        std::vector<double> sums(kSummedKeys);
        const auto pull = cluster.workers[0]->pull(table, KeyRange{0, kSummedKeys},
                                                   std::as_writable_bytes(std::span(sums)), {1, 0});
        REQUIRE(cluster.finish(0, pull).has_value());
        CHECK(sums[kSummedKeys - 1] == 3);
        CHECK(cluster.finish(0, push(0, 2)).code() == Errc::kPeerLost);
    }

    TEST_CASE(
        "who waits for a worker's part is told when that one gives up, and keeps its client") {
        StartedCluster cluster(9, {}, schema(Layout::kDense));
        const TableInfo& table = cluster.table;
        const std::vector<double> values(kSummedKeys, 1);
        const auto push = [&](uint32_t worker) {
            return cluster.workers[worker]->push(table, KeyRange{0, kSummedKeys},
                                                 std::as_bytes(std::span(values)), {1, 0});
        };
        const auto waiting = push(0);
        const auto own = push(2);  // under way when it gives up
        const auto leaving = cluster.workers[1]->leave(Error(Errc::kNoMemory, "disk full"), 0);
        const uint64_t before_ns = cluster.clock.now_ns();
        CHECK(cluster.finish(1, leaving).has_value());
        for (const auto& [worker, call] : {std::pair{0U, waiting}, {2U, own}}) {
            const Status ended = cluster.finish(worker, call);
            CHECK(ended.code() == Errc::kPeerLost);
            CHECK(ended.error().message().find("worker 1") != std::string::npos);
        }
        CHECK(cluster.clock.now_ns() - before_ns < kSecond);
        CHECK(cluster.workers[1]->take(push(1)).code() == Errc::kUnavailable);
    }

    TEST_CASE("a server that dies ends every call with an error that names it, others go on") {
        StartedCluster cluster(6, {}, schema(Layout::kDense));
        const TableInfo& table = cluster.table;
        std::vector<double> values(kSummedKeys, 1);
        cluster.network.kill(1);
        const auto call = cluster.workers[0]->push(table, KeyRange{0, kSummedKeys},
                                                   std::as_bytes(std::span(values)), {});
        const Status ended = cluster.finish(0, call);
        CHECK((ended.code() == Errc::kPeerLost || ended.code() == Errc::kDeadline));
        CHECK(ended.error().message().find("server 1") != std::string::npos);
    }

    TEST_CASE("who waits in vain for a worker that neither works nor dies is told what for") {
        StartedCluster cluster(8, {}, schema(Layout::kDense));
        const TableInfo& table = cluster.table;
        const std::vector<double> values(kSummedKeys, 1);
        const auto call = cluster.workers[0]->push(table, KeyRange{0, kSummedKeys},
                                                   std::as_bytes(std::span(values)), {1, kSecond});
        const Status ended = cluster.finish(0, call);
        CHECK(ended.code() == Errc::kDeadline);
        CHECK(ended.error().message().find("another worker's part of iteration 1") !=
              std::string::npos);
    }

    TEST_CASE("a partition ends a call at its deadline at the latest, and names the server") {
        SimShape shape;
        transport::sim::Options network;
        network.tries_max = 1'000'000;  // the network itself never gives up
        network.silence_ns = 1000 * kSecond;
        SimCluster cluster(7, shape, network);
        REQUIRE(cluster.start());
        auto table = cluster.make_table(0, schema(Layout::kDense));
        REQUIRE(table.has_value());
        cluster.network.partition(1, cluster.host_of_worker(0));
        std::vector<double> values(kSummedKeys, 1);
        CallOptions options;
        options.deadline_ns = kSecond;
        const uint64_t before_ns = cluster.clock.now_ns();
        const auto call = cluster.workers[0]->push(*table, KeyRange{0, kSummedKeys},
                                                   std::as_bytes(std::span(values)), options);
        const Status ended = cluster.finish(0, call);
        CHECK(ended.code() == Errc::kDeadline);
        CHECK(ended.error().message().find("server 1") != std::string::npos);
        CHECK(cluster.clock.now_ns() - before_ns < 3 * kSecond);
    }
}

}  // namespace weir::test

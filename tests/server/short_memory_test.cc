// SPDX-License-Identifier: Apache-2.0
/// \file
/// Workers and servers whose memory holds the live data and little more, on simulated time: they
/// forget earlier lists to make room, also while requests are under way.

#include <algorithm>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/cluster/sim_cluster.h"

namespace weir::test {
namespace {

constexpr uint64_t kSeed = 7;

std::vector<uint64_t> fresh_list(Random& random, size_t count, uint64_t key_limit) {
    std::vector<uint64_t> keys(count);
    for (uint64_t& key : keys)
        key = random.below(key_limit);
    std::ranges::sort(keys);
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    return keys;
}

/// Every step pushes several new lists at a time and pulls one of them; every push must be counted
/// exactly once.
void train(const SimShape& shape, bool maps_memory, uint64_t steps) {
    INFO("seed " << kSeed << ", maps memory " << maps_memory);
    transport::sim::Options network;
    network.maps_memory = maps_memory;
    network.step_bytes = 1 << 20;
    StartedCluster cluster(kSeed, shape, sparse_table("model", ValueType::kInt64), network);
    const TableInfo& table = cluster.table;
    ClientCore& client = cluster.client();
    constexpr uint64_t kNewKeys = 1000;  // a step
    constexpr size_t kInFlight = 3;
    Random random(kSeed);
    std::vector<int64_t> expected(steps * kNewKeys, 0);
    for (uint64_t step = 0; step < steps; ++step) {
        INFO("step " << step);
        std::vector<std::vector<uint64_t>> lists;
        std::vector<ClientCore::CallId> calls;
        const std::vector<int64_t> ones(3000, 1);
        for (size_t i = 0; i < kInFlight; ++i) {
            const std::vector<uint64_t>& list =
                lists.emplace_back(fresh_list(random, 3000, (step + 1) * kNewKeys));
            const auto values = std::as_bytes(std::span(ones).first(list.size()));
            calls.push_back(client.push(table, list, values, {}));
            for (const uint64_t key : list)
                ++expected[key];
        }
        for (const auto call : calls) {
            const Status ended = cluster.finish(0, call);
            INFO((ended ? "" : ended.error().text()));
            REQUIRE(ended.has_value());
        }
        std::vector<int64_t> out(lists[0].size());
        const auto pull = client.pull(table, lists[0], std::as_writable_bytes(std::span(out)), {});
        REQUIRE(cluster.finish(0, pull).has_value());
        for (size_t i = 0; i < out.size(); ++i)
            REQUIRE(out[i] == expected[lists[0][i]]);
    }
}

}  // namespace

TEST_SUITE("short_memory") {
    TEST_CASE("a worker forgets routes before a push or pull fails for want of memory") {
        for (const bool maps_memory : {false, true}) {
            SimShape shape{.servers = 2, .shards = 1, .workers = 1};
            shape.worker_memory_bytes = 300'000;  // under way: three times 24 KB of keys and values
            train(shape, maps_memory, 100);
        }
    }

    TEST_CASE("a shard forgets lists before it has no memory for keys or for what it fetches") {
        for (const bool maps_memory : {false, true}) {
            SimShape shape{.servers = 2, .shards = 1, .workers = 1};
            // 50'000 keys: 2 MiB of rows, and an index that grows from a half to one MiB.
            shape.server_memory_bytes = 3'800'000;
            train(shape, maps_memory, 100);
        }
    }

    TEST_CASE("a shard forgets lists before a new table is refused") {
        SimShape shape{.servers = 2, .shards = 1, .workers = 1};
        shape.server_memory_bytes = 3'400'000;
        StartedCluster cluster(kSeed, shape, sparse_table("first"));
        const TableInfo& table = cluster.table;
        ClientCore& client = cluster.client();
        Random random(kSeed);
        const std::vector<float> ones(3000, 1);
        for (int step = 0; step < 400; ++step) {
            const std::vector<uint64_t> list = fresh_list(random, 3000, 5000);
            const auto values = std::as_bytes(std::span(ones).first(list.size()));
            REQUIRE(cluster.finish(0, client.push(table, list, values, {})).has_value());
        }
        const TableSchema second = dense_table("second", 200'000);  // 400 KB at each shard
        CHECK(cluster.make_table(0, second).has_value());
    }

    TEST_CASE(
        "an iteration for whose keys a shard has no memory fails for everybody, the next not") {
        SimShape shape{.servers = 2, .shards = 1, .workers = 2};
        shape.server_memory_bytes = 3'000'000;
        StartedCluster cluster(kSeed, shape, sparse_table("model", ValueType::kInt64));
        const TableInfo& table = cluster.table;
        const std::vector<uint64_t> few{1, 2, 3, 4, 5, 6, 7, 8};
        std::vector<uint64_t> many(300'000);
        for (size_t i = 0; i < many.size(); ++i)
            many[i] = i + 1;
        const std::vector<int64_t> ones(many.size(), 1);
        const auto push = [&](uint32_t worker, std::span<const uint64_t> keys, uint64_t iteration) {
            CallOptions options;
            options.iteration = iteration;
            const auto values = std::as_bytes(std::span(ones).first(keys.size()));
            return cluster.workers[worker]->push(table, keys, values, options);
        };
        const auto check_failed = [&](uint32_t worker, ClientCore::CallId call, const char* part) {
            const Status ended = cluster.finish(worker, call);
            REQUIRE_FALSE(ended.has_value());
            const std::string text = ended.error().message();
            INFO(text);
            CHECK(ended.code() == Errc::kNoMemory);
            CHECK(text.find("iteration 1 failed at shard 0 of server ") != std::string::npos);
            CHECK(text.find(part) != std::string::npos);
            CHECK(text.find("see in its log which limit was reached") != std::string::npos);
        };
        std::vector<int64_t> out(few.size(), -1);
        const auto pull = [&](uint32_t worker, uint64_t iteration) {
            CallOptions options;
            options.iteration = iteration;
            const auto into = std::as_writable_bytes(std::span(out));
            return cluster.finish(worker, cluster.workers[worker]->pull(table, few, into, options));
        };
        const auto waiting = push(0, few, 1);
        cluster.run_idle(3);
        const auto too_many = push(1, many, 1);
        check_failed(1, too_many, "worker 1, this one");
        check_failed(0, waiting, "worker 1");
        CHECK(pull(0, 1).code() == Errc::kNoMemory);
        const auto next = push(0, few, 2);
        CHECK(cluster.finish(1, push(1, few, 2)).has_value());
        CHECK(cluster.finish(0, next).has_value());
        REQUIRE(pull(1, 2).has_value());
        CHECK(out == std::vector<int64_t>(few.size(), 2));  // nothing of the first one
        CHECK(pull(0, 1).code() == Errc::kNoMemory);        // it is still known to have failed
    }

    TEST_CASE("an iteration of one worker in many parts of which one fails changes nothing") {
        SimShape shape = one_shard();
        shape.server_memory_bytes = 24'000'000;  // enough for the first of its three parts
        StartedCluster cluster(kSeed, shape, sparse_table("model", ValueType::kInt64));
        const TableInfo& table = cluster.table;
        std::vector<uint64_t> many(600'000);
        for (size_t i = 0; i < many.size(); ++i)
            many[i] = i + 1;
        const std::vector<int64_t> ones(many.size(), 1);
        CallOptions options;
        options.iteration = 1;
        const Status ended = cluster.finish(
            0, cluster.workers[0]->push(table, many, std::as_bytes(std::span(ones)), options));
        CHECK(ended.code() == Errc::kNoMemory);
        std::vector<int64_t> out(8, -1);
        REQUIRE(cluster
                    .finish(0, cluster.workers[0]->pull(table, std::span(many).first(8),
                                                        std::as_writable_bytes(std::span(out)), {}))
                    .has_value());
        CHECK(out == std::vector<int64_t>(8, 0));
    }
}

}  // namespace weir::test

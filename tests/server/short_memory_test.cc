// SPDX-License-Identifier: Apache-2.0
/// \file
/// Workers and servers whose memory holds the live data and little more, on simulated time: what
/// they remember of earlier lists makes room, also while requests are under way.

#include <algorithm>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/server/sim_cluster.h"

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

/// Every step pushes lists that nobody has seen, several at a time, and pulls one of them; at the
/// end every push must be there exactly once.
void train(const SimShape& shape, bool maps_memory, uint64_t steps) {
    INFO("seed " << kSeed << ", maps memory " << maps_memory);
    transport::sim::Options network;
    network.maps_memory = maps_memory;
    network.step_bytes = 1 << 20;
    SimCluster cluster(kSeed, shape, network);
    REQUIRE(cluster.start());
    TableSchema schema;
    schema.name = "model";
    schema.layout = Layout::kSparse;
    schema.value_type = ValueType::kInt64;
    const TableInfo table = *cluster.make_table(0, schema);
    ClientCore& client = *cluster.workers[0];
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

SimShape two_shards() {
    SimShape shape;
    shape.servers = 2;
    shape.shards = 1;
    shape.workers = 1;
    return shape;
}

}  // namespace

TEST_SUITE("short_memory") {
    TEST_CASE("a worker forgets routes before a push or pull fails for want of memory") {
        for (const bool maps_memory : {false, true}) {
            SimShape shape = two_shards();
            shape.worker_memory_bytes = 300'000;  // under way: three times 24 KB of keys and values
            train(shape, maps_memory, 100);
        }
    }

    TEST_CASE("a shard forgets lists before it has no memory for keys or for what it fetches") {
        for (const bool maps_memory : {false, true}) {
            SimShape shape = two_shards();
            // 50'000 keys: 2 MiB of rows, and an index that grows from a half to one MiB.
            shape.server_memory_bytes = 3'740'000;
            train(shape, maps_memory, 100);
        }
    }

    TEST_CASE("a shard forgets lists before a new table is refused") {
        SimShape shape = two_shards();
        shape.server_memory_bytes = 3'400'000;
        SimCluster cluster(kSeed, shape, {});
        REQUIRE(cluster.start());
        TableSchema schema;
        schema.name = "first";
        schema.layout = Layout::kSparse;
        const TableInfo table = *cluster.make_table(0, schema);
        ClientCore& client = *cluster.workers[0];
        Random random(kSeed);
        const std::vector<float> ones(3000, 1);
        for (int step = 0; step < 400; ++step) {
            const std::vector<uint64_t> list = fresh_list(random, 3000, 5000);
            const auto values = std::as_bytes(std::span(ones).first(list.size()));
            REQUIRE(cluster.finish(0, client.push(table, list, values, {})).has_value());
        }
        schema.name = "second";
        schema.layout = Layout::kDense;
        schema.key_count = 200'000;  // 400 KB at each shard
        CHECK(cluster.make_table(0, schema).has_value());
    }
}

}  // namespace weir::test

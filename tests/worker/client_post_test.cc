// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which way values take to a shard, seen from outside: what is copied, and how long a push takes
/// on simulated time.

#include <doctest/doctest.h>

#include "tests/server/sim_cluster.h"

namespace weir::test {
namespace {

constexpr uint64_t kKeys = 4096;

/// One worker, one shard, and a network on which everything takes 10 us.
struct OnePair {
    explicit OnePair(bool maps_memory, size_t eager_bytes) {
        SimShape shape;
        shape.servers = 1;
        shape.shards = 1;
        shape.workers = 1;
        shape.eager_bytes = eager_bytes;
        transport::sim::Options network;
        network.delay_ns_min = 10 * kMicrosecond;
        network.delay_ns_max = 10 * kMicrosecond;
        network.maps_memory = maps_memory;
        cluster = std::make_unique<SimCluster>(1, shape, network);
        REQUIRE(cluster->start());
        TableSchema schema;
        schema.name = "counts";
        schema.layout = Layout::kDense;
        schema.key_count = kKeys;
        table = *cluster->make_table(0, schema);
        registered = cluster->memory_of(0).allocate(kKeys * sizeof(float), 64);
    }

    ~OnePair() { cluster->memory_of(0).deallocate(registered, kKeys * sizeof(float), 64); }

    OnePair(const OnePair&) = delete;
    OnePair& operator=(const OnePair&) = delete;

    struct Seen {
        uint64_t bytes_copied = 0;
        uint64_t ns = 0;
    };

    Seen push(std::span<const std::byte> values) {
        ClientCore& client = *cluster->workers[0];
        const Seen before{client.counters().bytes_copied, cluster->clock.now_ns()};
        const KeyRange keys{0, values.size() / sizeof(float)};
        REQUIRE(cluster->finish(0, client.push(table, keys, values, {})).has_value());
        return {client.counters().bytes_copied - before.bytes_copied,
                cluster->clock.now_ns() - before.ns};
    }

    Seen push_registered(size_t bytes) { return push({registered, bytes}); }

    std::unique_ptr<SimCluster> cluster;
    TableInfo table;
    std::byte* registered = nullptr;
};

}  // namespace

TEST_SUITE("client_post") {
    TEST_CASE("values up to the eager limit go in the message, and save a round trip") {
        OnePair pair(false, 2048);
        const OnePair::Seen eager = pair.push_registered(2048);
        const OnePair::Seen fetched = pair.push_registered(2052);
        CHECK(eager.bytes_copied == 2048);
        CHECK(fetched.bytes_copied == 0);
        CHECK(eager.ns < 30 * kMicrosecond);
        CHECK(fetched.ns > 40 * kMicrosecond);
    }

    TEST_CASE("a shard that addresses our memory takes them from there from 256 bytes on") {
        OnePair pair(true, 2048);
        CHECK(pair.push_registered(256).bytes_copied == 256);
        CHECK(pair.push_registered(260).bytes_copied == 0);
    }

    TEST_CASE("values that nobody registered go through one buffer of ours, however many") {
        for (const bool maps_memory : {false, true}) {
            OnePair pair(maps_memory, 2048);
            const std::vector<float> values(kKeys, 1);
            const auto bytes = std::as_bytes(std::span(values));
            CHECK(pair.push(bytes).bytes_copied == bytes.size());
            CHECK(pair.push(bytes.first(4096)).bytes_copied == 4096);  // fits in a message
        }
    }
}

}  // namespace weir::test

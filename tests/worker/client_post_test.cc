// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which way values take to a shard, seen by what is copied and by how long a push takes on
/// simulated time.

#include <doctest/doctest.h>

#include "tests/cluster/sim_cluster.h"

namespace weir::test {
namespace {

constexpr uint64_t kKeys = 4096;

/// One worker, one shard, and a network on which everything takes 10 us.
struct OnePair {
    explicit OnePair(bool maps_memory, size_t eager_bytes, uint32_t copied_bytes_max = 256) {
        SimShape shape = one_shard();
        shape.eager_bytes = eager_bytes;
        transport::sim::Options network;
        network.delay_ns_min = 10 * kMicrosecond;
        network.delay_ns_max = 10 * kMicrosecond;
        network.maps_memory = maps_memory;
        network.copied_bytes_max = copied_bytes_max;
        cluster = std::make_unique<StartedCluster>(1, shape, dense_table("counts", kKeys), network);
        table = cluster->table;
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

    /// What worker and shard copied while `transfer()` ran.
    template <class Transfer>
    std::pair<uint64_t, uint64_t> copied(Transfer&& transfer) {
        ClientCore& client = *cluster->workers[0];
        const std::pair before{client.counters().bytes_copied, copied_by_shard()};
        REQUIRE(cluster->finish(0, transfer(client)).has_value());
        return {client.counters().bytes_copied - before.first, copied_by_shard() - before.second};
    }

    uint64_t copied_by_shard() {
        ClientCore& client = *cluster->workers[0];
        const auto call = client.stats(0);
        REQUIRE(cluster->run_until([&] { return client.done(call); }));
        return client.take_stats(call)->bytes_copied;
    }

    Seen push_registered(size_t bytes) { return push({registered, bytes}); }

    std::unique_ptr<StartedCluster> cluster;
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

    TEST_CASE("where a transport copies at less cost, all that fits goes in messages") {
        for (const bool copies : {false, true}) {
            OnePair pair(false, 1024, copies ? 1 << 20 : 256);
            CHECK(pair.push_registered(2048).bytes_copied == (copies ? 2048 : 0));
            const auto pulled = pair.copied([&](ClientCore& c) {
                return c.pull(pair.table, KeyRange{0, 512}, {pair.registered, 2048}, {});
            });
            CHECK(pulled == (copies ? std::pair<uint64_t, uint64_t>{2048, 2048}
                                    : std::pair<uint64_t, uint64_t>{0, 0}));
            CHECK(pair.push_registered(kKeys * sizeof(float)).bytes_copied == 0);  // fits in none
        }
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

    TEST_CASE("each copy of keys and values is counted once, by the side that makes it") {
        using Both = std::pair<uint64_t, uint64_t>;
        constexpr uint64_t kMany = 1000;
        OnePair pair(false, 2048);
        std::vector<uint64_t> keys(kMany);
        for (uint64_t i = 0; i < kMany; ++i)
            keys[i] = 2 * i;
        std::vector<float> values(kMany, 1);
        const auto bytes = std::as_bytes(std::span(values));
        const auto out = std::as_writable_bytes(std::span(values));
        // Few: keys and values into the message, and out of the reply's.
        const std::span few = std::span<const uint64_t>(keys).first(8);
        CHECK(pair.copied([&](ClientCore& c) {
            return c.push(pair.table, few, bytes.first(32), {});
        }) == Both{64 + 32, 0});
        CHECK(pair.copied([&](ClientCore& c) {
            return c.pull(pair.table, few, out.first(32), {});
        }) == Both{64 + 32, 2 * 32});  // into the shard's buffer, and into the message
        // Many, not registered: keys in the message, values through a buffer of the worker's; a
        // pull is gathered in one of the shard's.
        CHECK(pair.copied([&](ClientCore& c) { return c.push(pair.table, keys, bytes, {}); }) ==
              Both{8 * kMany + 4 * kMany, 8 * kMany});  // the keys wait for the values
        // After one pull the client knows that the shard has the list, and sends no keys again.
        for (const uint64_t bytes_of_keys : {8 * kMany, uint64_t{0}}) {
            const Both seen =
                pair.copied([&](ClientCore& c) { return c.pull(pair.table, keys, out, {}); });
            INFO("by the worker " << seen.first << ", by the shard " << seen.second);
            CHECK(seen == Both{bytes_of_keys + 4 * kMany, 2 * 4 * kMany});
        }
        // More than a message holds, into registered memory: gathered by the shard, and written.
        std::vector<uint64_t> most(kKeys - 1);
        for (uint64_t i = 0; i < most.size(); ++i)
            most[i] = i;
        CHECK(pair.copied([&](ClientCore& c) {
            return c.pull(pair.table, most, {pair.registered, 4 * most.size()}, {});
        }) == Both{8 * most.size(), 4 * most.size()});
    }

    TEST_CASE("keys that wait at the shard until their values are fetched are copied there") {
        OnePair pair(false, 2048);
        const TableInfo wide =
            *pair.cluster->make_table(0, sparse_table("wide rows", ValueType::kFloat32, 1024));
        const std::vector<uint64_t> keys{5, 7};
        CHECK(pair.copied([&](ClientCore& c) {
            return c.push(wide, keys, {pair.registered, 8192}, {});
        }) == std::pair<uint64_t, uint64_t>{16, 16});
    }
}

}  // namespace weir::test

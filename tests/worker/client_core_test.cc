// SPDX-License-Identifier: Apache-2.0
/// \file
/// Errors that a client meets, on simulated time: calls that end before their requests do, servers
/// that die, names and lists that are refused.

#include "lib/worker/client_core.h"

#include <numeric>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "lib/worker/client_state.h"
#include "tests/cluster/sim_cluster.h"

namespace weir::test {
namespace {

TableSchema sparse(uint32_t width = 1) {
    return sparse_table("numbers", ValueType::kFloat64, width);
}

TableSchema dense(uint64_t key_count) {
    return dense_table("numbers", key_count, ValueType::kFloat64);
}

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
    return std::as_bytes(std::span(values));
}

}  // namespace

TEST_SUITE("client core") {
    TEST_CASE("of a call that has ended nothing is sent: its memory is the caller's again") {
        StartedCluster cluster(1, one_shard(), sparse());
        const TableInfo& table = cluster.table;
        ClientCore& client = cluster.client();
        const std::vector<uint64_t> other{7};
        const std::vector<double> zero{0};
        std::vector<ClientCore::CallId> before;
        for (int i = 0; i < 300; ++i)  // the shard is not polled, so its queue fills up
            before.push_back(client.push(table, other, bytes_of(zero), {}));
        std::vector<uint64_t> key{8};
        std::vector<double> value{1};
        const auto late = client.push(table, key, bytes_of(value), {.deadline_ns = kMillisecond});
        while (!client.done(late)) {
            cluster.clock.advance(kMillisecond / 10);
            (void)client.poll();
        }
        CHECK(client.take(late).code() == Errc::kDeadline);
        key[0] = 9;
        value[0] = 777;
        for (const auto call : before)
            CHECK(cluster.finish(0, call).has_value());
        const std::vector<uint64_t> keys{8, 9};
        std::vector<double> pulled(2, -1);
        const auto pull = client.pull(table, keys, std::as_writable_bytes(std::span(pulled)), {});
        REQUIRE(cluster.finish(0, pull).has_value());
        CHECK(pulled == std::vector<double>{0, 0});
    }

    TEST_CASE(
        "a call of whose memory a server may read ends after its deadline, when that has ended") {
        StartedCluster cluster(1, one_shard(), sparse(1024));
        const TableInfo& table = cluster.table;
        ClientCore& client = cluster.client();
        std::byte* const memory = cluster.memory_of(0).allocate(8192, 64);
        const std::vector<uint64_t> keys{5};
        const auto push = client.push(table, keys, {memory, 8192}, {.deadline_ns = kMillisecond});
        const uint64_t begin_ns = cluster.clock.now_ns();
        while (cluster.clock.now_ns() < begin_ns + 50 * kMillisecond) {  // the shard is not polled
            cluster.clock.advance(kMillisecond / 10);
            (void)client.poll();
        }
        CHECK_FALSE(client.done(push));
        CHECK(client.is_referenced({memory + 8191, 1}));
        CHECK_FALSE(client.is_referenced({memory + 8192, 1}));
        (void)cluster.run_until([&] { return client.done(push); });
        const Status ended = client.take(push);
        CHECK(ended.code() == Errc::kDeadline);
        CHECK(ended.error().message().find("may have been applied, once at most") !=
              std::string::npos);
        CHECK_FALSE(client.is_referenced({memory, 8192}));
        cluster.memory_of(0).deallocate(memory, 8192, 64);
    }

    TEST_CASE("the caller's memory is referenced by a pull that comes to it through a copy") {
        SimShape shape = one_shard();
        shape.shards = 4;
        StartedCluster cluster(1, shape, sparse());
        const TableInfo& table = cluster.table;
        ClientCore& client = cluster.client();
        std::vector<uint64_t> keys(4000);  // regrouped by shard
        std::iota(keys.begin(), keys.end(), 1);
        std::vector<double> out(keys.size());
        const std::span<std::byte> memory = std::as_writable_bytes(std::span(out));
        const auto pull = client.pull(table, keys, memory, {});
        CHECK(client.is_referenced(memory.first(1)));
        CHECK(client.is_referenced(memory.last(1)));
        CHECK(cluster.finish(0, pull).has_value());
        CHECK_FALSE(client.is_referenced(memory));
    }

    TEST_CASE("who polls seldom sees a deadline at the first poll after it") {
        StartedCluster cluster(1, one_shard(), sparse());
        const TableInfo& table = cluster.table;
        ClientCore& client = cluster.client();
        const std::vector<uint64_t> keys{5};
        const std::vector<double> values{1};
        for (int i = 0; i < 3; ++i) {
            const auto push = client.push(table, keys, bytes_of(values), {.deadline_ns = kSecond});
            cluster.clock.advance(kSecond / 2);
            (void)client.poll_seldom();
            CHECK_FALSE(client.done(push));
            cluster.clock.advance(kSecond / 2);
            (void)client.poll_seldom();
            CHECK(client.done(push));
            CHECK(client.take(push).code() == Errc::kDeadline);
        }
    }

    TEST_CASE("memory that is given back is the pool's again when no request refers to it") {
        StartedCluster cluster(1, one_shard(), sparse(1024));
        const TableInfo& table = cluster.table;
        const auto pool = std::make_shared<RegisteredMemory>(cluster.device_of_worker(0),
                                                             transport::Access::kRemote);
        std::byte* const memory = pool->allocate(8192, 64);
        std::byte* const other = pool->allocate(64, 64);
        ClientState state(std::move(cluster.workers[0]), pool, nullptr, IdleOptions{});
        const std::vector<uint64_t> keys{5};
        (void)state.core().push(table, keys, {memory, 8192}, {.deadline_ns = kMillisecond});
        for (int i = 0; i < 20; ++i) {  // the shard is not polled
            cluster.clock.advance(kMillisecond / 10);
            (void)state.core().poll();
        }
        state.give_back({memory, 8192});
        CHECK(pool->deallocations() == 0);
        REQUIRE(cluster.run_until([&] {
            (void)state.core().poll();
            return !state.core().is_referenced({memory, 8192});
        }));
        state.give_back({other, 64});
        CHECK(pool->deallocations() == 2);
    }

    TEST_CASE(
        "who waits at a barrier when a server dies is told at once, and whoever comes later") {
        SimCluster cluster(2, {}, {});
        REQUIRE(cluster.start());
        const uint64_t begin_ns = cluster.clock.now_ns();
        const auto waiting = cluster.workers[0]->barrier(1000 * kSecond);
        cluster.run_idle(3);
        cluster.network.kill(1);
        const Status ended = cluster.finish(0, waiting);
        CHECK(ended.code() == Errc::kPeerLost);
        CHECK(ended.error().message().find("server 1 (rank") != std::string::npos);
        CHECK(cluster.finish(0, cluster.workers[0]->barrier(0)).code() == Errc::kPeerLost);
        CHECK(cluster.clock.now_ns() - begin_ns < 2 * kSecond);
    }

    TEST_CASE("a name that no table can have is refused here, and the client goes on") {
        SimCluster cluster(3, one_shard(), {});
        REQUIRE(cluster.start());
        ClientCore& client = *cluster.workers[0];
        for (const size_t length : {size_t{0}, TableMessage::kNameBytesMax + 1}) {
            TableSchema schema = sparse();
            schema.name.assign(length, 'n');
            CHECK(cluster.make_table(0, schema).code() == Errc::kInvalidArgument);
            CHECK(cluster.finish(0, client.open_table(schema.name)).code() ==
                  Errc::kInvalidArgument);
        }
        TableSchema longest = sparse();
        longest.name.assign(TableMessage::kNameBytesMax, 'n');
        CHECK(cluster.make_table(0, longest).has_value());
    }

    TEST_CASE("a range or a number of values that does not fit is refused with what would") {
        SimCluster cluster(3, one_shard(), {});
        REQUIRE(cluster.start());
        ClientCore& client = *cluster.workers[0];
        TableSchema schema = sparse(2);
        const TableInfo sparse_info = *cluster.make_table(0, schema);
        schema.name = "dense";
        schema.layout = Layout::kDense;
        schema.key_count = 10;
        const TableInfo dense_info = *cluster.make_table(0, schema);
        std::vector<double> values(20);
        const auto refused = [&](const TableInfo& table, KeyRange range, size_t count) {
            return cluster
                .finish(0, client.push(table, range, bytes_of(values).first(count * sizeof(double)),
                                       {}))
                .error()
                .text();
        };
        CHECK(refused(sparse_info, {0, 3}, 6) ==
              fmt::format("table '{}': it is sparse, and only dense tables take a range of keys; "
                          "give a list of them",
                          sparse_info.schema.name));
        CHECK(refused(dense_info, {5, 15}, 20) ==
              "table 'dense': keys 5 to 14 are not all in it; it has keys 0 to 9");
        CHECK(refused(dense_info, {7, 5}, 0) ==
              "table 'dense': the range from key 7 ends at key 5, before it begins");
        CHECK(refused(dense_info, {0, 3}, 5) ==
              "table 'dense': 3 keys need 6 values, 2 each; got 5");
    }

    TEST_CASE("the widest rows travel whole, whatever a piece may hold") {
        for (const bool maps_memory : {false, true}) {
            transport::sim::Options network;
            network.maps_memory = maps_memory;
            network.step_bytes = 1 << 20;
            SimShape shape = one_shard();
            shape.fetch_bytes_max = size_t{64} << 20;
            StartedCluster cluster(4, shape, sparse(TableSchema::kWidthMax), network);
            const TableInfo& table = cluster.table;
            const std::vector<uint64_t> keys{3, ~uint64_t{0}};
            std::vector<double> values(keys.size() * TableSchema::kWidthMax, 1.5);
            values.back() = 2.5;
            ClientCore& client = cluster.client();
            REQUIRE(cluster.finish(0, client.push(table, keys, bytes_of(values), {})).has_value());
            std::vector<double> pulled(values.size(), -1);
            const auto pull =
                client.pull(table, keys, std::as_writable_bytes(std::span(pulled)), {});
            REQUIRE(cluster.finish(0, pull).has_value());
            CHECK(pulled == values);
        }
    }

    TEST_CASE("a call ends when its last piece has ended, with the first error") {
        constexpr size_t kKeys = 4096;
        StartedCluster cluster(6, {.shards = 1, .workers = 1}, dense(kKeys));
        const TableInfo& table = cluster.table;
        ClientCore& client = cluster.client();
        std::byte* const memory = cluster.memory_of(0).allocate(kKeys * sizeof(double), 64);
        const auto pull = client.pull(table, KeyRange{0, kKeys}, {memory, kKeys * 8}, {});
        cluster.network.kill(1);
        // Server 0 lives, but is slow: it has not answered yet when server 1 is known to be dead.
        for (int i = 0; i < 10'000; ++i) {
            if (!cluster.network.step()) cluster.clock.advance(kMillisecond / 10);
            (void)client.poll();
        }
        CHECK_FALSE(client.done(pull));
        CHECK(client.is_referenced({memory, kKeys * 8}));
        const Status ended = cluster.finish(0, pull);
        CHECK(ended.code() == Errc::kPeerLost);
        CHECK(ended.error().message().find("server 1") != std::string::npos);
        CHECK_FALSE(client.is_referenced({memory, kKeys * 8}));
        cluster.memory_of(0).deallocate(memory, kKeys * 8, 64);
    }

    TEST_CASE("a call that has failed does not wait for pieces that need nothing of the caller") {
        StartedCluster cluster(7, {.shards = 1, .workers = 2}, dense(8));
        const TableInfo& table = cluster.table;
        ClientCore& client = cluster.client();
        const std::vector<double> values(8, 1);  // few: they travel in the messages
        const auto push = client.push(table, KeyRange{0, 8}, bytes_of(values), {1, 0});
        cluster.run_idle(3);
        cluster.network.kill(1);
        const uint64_t before_ns = cluster.clock.now_ns();
        CHECK(cluster.finish(0, push).code() == Errc::kPeerLost);  // worker 1 never comes
        CHECK(cluster.clock.now_ns() - before_ns < kSecond);
    }

    TEST_CASE("of a push, live shards get their pieces though another one is dead") {
        constexpr size_t kKeys = 4096;
        StartedCluster cluster(8, {.shards = 1, .workers = 2}, dense(kKeys));
        const TableInfo& table = cluster.table;
        std::byte* memory[2];
        ClientCore::CallId parts[2];
        const auto push = [&](uint32_t worker) {
            memory[worker] = cluster.memory_of(worker).allocate(kKeys * 8, 64);
            const std::span<const std::byte> values{memory[worker], kKeys * 8};
            parts[worker] =
                cluster.workers[worker]->push(table, KeyRange{0, kKeys}, values, {1, 0});
        };
        push(0);
        cluster.network.kill(1);
        cluster.run_idle(300);  // both have seen it die
        const uint64_t before_ns = cluster.clock.now_ns();
        push(1);  // else the first one's piece at server 0 would wait until its deadline
        CHECK(cluster.finish(0, parts[0]).code() == Errc::kPeerLost);
        CHECK(cluster.finish(1, parts[1]).code() == Errc::kPeerLost);
        CHECK(cluster.clock.now_ns() - before_ns < kSecond);
        for (const uint32_t worker : {0U, 1U})
            cluster.memory_of(worker).deallocate(memory[worker], kKeys * 8, 64);
    }

    TEST_CASE("a worker that gives up does not wait for iterations that it has open") {
        StartedCluster cluster(9, one_shard(2), sparse(1024));
        const TableInfo& table = cluster.table;
        std::byte* const memory = cluster.memory_of(0).allocate(8192, 64);
        ClientCore& client = cluster.client();
        const std::vector<uint64_t> keys{5};
        const auto own = client.push(table, keys, {memory, 8192}, {1, 0});
        const auto pull = client.pull(table, keys, {memory, 8192}, {1, 0});
        cluster.run_idle(3);
        const uint64_t before_ns = cluster.clock.now_ns();
        CHECK(cluster.finish(0, client.leave(Error(Errc::kIo, "disk full"), 0)).has_value());
        CHECK(cluster.finish(0, own).code() == Errc::kUnavailable);
        CHECK(cluster.finish(0, pull).code() == Errc::kUnavailable);
        // Its part of the first iteration is in, of the second one nothing will come.
        const auto other = cluster.workers[1]->push(table, keys, {memory, 8192}, {1, 0});
        CHECK(cluster.finish(1, other).has_value());
        const auto next = cluster.workers[1]->push(table, keys, {memory, 8192}, {2, 0});
        CHECK(cluster.finish(1, next).code() == Errc::kPeerLost);
        CHECK(cluster.clock.now_ns() - before_ns < kSecond);
        cluster.memory_of(0).deallocate(memory, 8192, 64);
    }

    TEST_CASE("a list that the shard cannot remember is soon sent in full at once") {
        StartedCluster cluster(5, one_shard(), sparse());
        const TableInfo& table = cluster.table;
        ClientCore& client = cluster.client();
        std::vector<uint64_t> never_pushed(100);
        for (size_t i = 0; i < never_pushed.size(); ++i)
            never_pushed[i] = i;
        std::vector<double> pulled(never_pushed.size());
        const uint64_t sent_before = client.endpoint_counters().messages_sent;
        constexpr uint64_t kPulls = 100;
        for (uint64_t i = 0; i < kPulls; ++i) {
            const auto pull =
                client.pull(table, never_pushed, std::as_writable_bytes(std::span(pulled)), {});
            REQUIRE(cluster.finish(0, pull).has_value());
        }
        CHECK(client.endpoint_counters().messages_sent - sent_before < kPulls + 10);
    }
}

}  // namespace weir::test

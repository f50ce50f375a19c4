// SPDX-License-Identifier: Apache-2.0
/// \file
/// Calls whose deadline comes while a server may still read or write their memory, and connections
/// whose end the server did not confirm.

#include <doctest/doctest.h>

#include "tests/cluster/sim_cluster.h"
#include "tests/doubtful_endpoint.h"

namespace weir::test {
namespace {

using testing::DoubtfulEndpoint;

constexpr uint64_t kLateKeys = 2048;  // more than goes in a message
constexpr size_t kLateBytes = kLateKeys * sizeof(uint64_t);

/// A cluster of one shard. The client may be told that nothing is confirmed.
class LateCluster : public SimCluster {
public:
    explicit LateCluster(bool is_doubtful)
        : SimCluster(7, one_shard(),
                     {.delay_ns_min = 100 * kMicrosecond, .delay_ns_max = 100 * kMicrosecond}) {
        if (is_doubtful) {
            ClientCoreOptions options;
            options.manager_address = manager->address();
            workers[0].reset();
            workers[0] = std::make_unique<ClientCore>(
                options,
                std::make_unique<DoubtfulEndpoint>(
                    std::move(device_of_worker(0).make_endpoint({})).value()),
                clock, memory_of(0), rules);
        }
        REQUIRE(start());
        table = *make_table(0, dense_table("late", kLateKeys, ValueType::kUInt64));
        memory = memory_of(0).allocate(kLateBytes, 64);
        values = {reinterpret_cast<uint64_t*>(memory), kLateKeys};
        std::ranges::fill(values, 1);
        clock.advance(kSecond);
    }

    ~LateCluster() { memory_of(0).deallocate(memory, kLateBytes, 64); }

    LateCluster(const LateCluster&) = delete;
    LateCluster& operator=(const LateCluster&) = delete;

    ClientCore& client() { return *workers[0]; }

    ClientCore::CallId push(uint64_t deadline_ns) {
        return client().push(table, KeyRange{0, kLateKeys}, {memory, kLateBytes},
                             {.deadline_ns = deadline_ns});
    }

    /// The client alone and the network, up to the time.
    void run_without_shard(uint64_t end_ns) {
        while (clock.now_ns() < end_ns) {
            (void)client().poll();
            if (!network.step()) clock.advance(10 * kMicrosecond);
        }
    }

    uint64_t pulled(uint64_t key) {
        uint64_t value = 0;
        const auto pull = client().pull(table, KeyRange{key, key + 1},
                                        std::as_writable_bytes(std::span(&value, 1)), {});
        REQUIRE(finish(0, pull).has_value());
        return value;
    }

    TableInfo table;
    std::byte* memory = nullptr;
    std::span<uint64_t> values;
};

}  // namespace

TEST_SUITE("client_deadlines") {
    TEST_CASE("a push that is withdrawn ends with its connection; others there are sent again") {
        LateCluster cluster(false);
        ClientCore& client = cluster.client();
        const uint64_t begin_ns = cluster.clock.now_ns();
        const auto late = cluster.push(kMillisecond);
        const std::vector<uint64_t> one{10};
        const auto other =
            client.push(cluster.table, KeyRange{3, 4}, std::as_bytes(std::span(one)), {});
        cluster.run_without_shard(begin_ns + 20 * kMillisecond);
        REQUIRE(client.done(late));  // the connection is closed
        const Status ended = client.take(late);
        REQUIRE(ended.code() == Errc::kDeadline);
        CHECK(ended.error().message().find("may have been applied, once at most") !=
              std::string::npos);
        CHECK(ended.error().text().find("does not use that memory") == std::string::npos);
        CHECK_FALSE(client.is_referenced({cluster.memory, kLateBytes}));
        std::ranges::fill(cluster.values, 7);  // the caller's own again
        CHECK_FALSE(client.done(other));
        CHECK(cluster.finish(0, other).has_value());
        CHECK(cluster.pulled(0) == 0);  // the shard could not read it any more
        CHECK(cluster.pulled(3) == 10);
        CHECK(cluster.finish(0, cluster.push(0)).has_value());
        CHECK(cluster.pulled(3) == 17);
    }

    TEST_CASE("without a manager, too, a push that is withdrawn ends with its connection") {
        for (const bool is_doubtful : {false, true}) {
            CAPTURE(is_doubtful);
            LateCluster cluster(is_doubtful);
            ClientCore& client = cluster.client();
            cluster.manager.reset();
            for (const uint64_t later_ns : {kMillisecond, ManagerLink::kGiveUpNs, kSecond}) {
                cluster.clock.advance(later_ns);
                cluster.run_without_shard(cluster.clock.now_ns() + 10 * kMillisecond);
            }
            const uint64_t begin_ns = cluster.clock.now_ns();
            const auto late = cluster.push(10 * kMillisecond);
            const std::vector<uint64_t> one{10};
            const auto other =
                client.push(cluster.table, KeyRange{3, 4}, std::as_bytes(std::span(one)), {});
            cluster.run_without_shard(begin_ns + 30 * kMillisecond);
            REQUIRE(client.done(late));
            const std::string text = client.take(late).error().message();
            CHECK(text.find("did not answer before the deadline") != std::string::npos);
            // Who called knows whether the shard may still read the memory.
            CHECK((text.find("does not use that memory") != std::string::npos) == is_doubtful);
            CHECK(client.is_referenced({cluster.memory, kLateBytes}) == is_doubtful);
            // Without the manager nothing connects to the shard again.
            REQUIRE(client.done(other));
            const std::string of_other = client.take(other).error().message();
            CHECK(of_other.find("the manager (rank 0) ") != std::string::npos);
            CHECK(of_other.find("was closed for a call whose deadline") != std::string::npos);
        }
    }

    TEST_CASE("a small push that is late ends at once, and takes effect once at most") {
        LateCluster cluster(false);
        const std::vector<uint64_t> one{10};
        const auto late =
            cluster.client().push(cluster.table, KeyRange{3, 4}, std::as_bytes(std::span(one)),
                                  {.deadline_ns = kMillisecond});
        const uint64_t begin_ns = cluster.clock.now_ns();
        while (!cluster.client().done(late)) {
            (void)cluster.client().poll();
            cluster.clock.advance(10 * kMicrosecond);
        }
        CHECK(cluster.clock.now_ns() - begin_ns < 3 * kMillisecond);
        CHECK(cluster.client().take(late).code() == Errc::kDeadline);
        CHECK(cluster.pulled(3) == 10);
    }

    TEST_CASE("connections are not closed more often than ten times a second") {
        LateCluster cluster(false);
        ClientCore& client = cluster.client();
        const auto first = cluster.push(kMillisecond);
        cluster.run_without_shard(cluster.clock.now_ns() + 20 * kMillisecond);
        REQUIRE(client.done(first));
        CHECK(client.take(first).code() == Errc::kDeadline);
        // The shard lives again, and the connection is made anew.
        CHECK(cluster.pulled(0) == 0);
        const uint64_t begin_ns = cluster.clock.now_ns();
        const auto second = cluster.push(kMillisecond);
        cluster.run_without_shard(begin_ns + 50 * kMillisecond);
        CHECK_FALSE(client.done(second));
        CHECK(client.is_referenced({cluster.memory, kLateBytes}));
        cluster.run_without_shard(begin_ns + 120 * kMillisecond);
        REQUIRE(client.done(second));
        CHECK(client.take(second).code() == Errc::kDeadline);
    }

    TEST_CASE("without the peer's confirmation a push is sent again, and takes effect once") {
        LateCluster cluster(true);
        ClientCore& client = cluster.client();
        const auto late = cluster.push(kMillisecond);
        const auto other = cluster.push(0);
        std::vector<uint64_t> out(kLateKeys);
        const auto pull = client.pull(cluster.table, KeyRange{0, kLateKeys},
                                      std::as_writable_bytes(std::span(out)), {});
        cluster.run_without_shard(cluster.clock.now_ns() + 20 * kMillisecond);
        REQUIRE(client.done(late));
        const Status ended = client.take(late);
        CHECK(ended.code() == Errc::kDeadline);
        CHECK(ended.error().text().find("this client does not use that memory again") !=
              std::string::npos);
        CHECK(cluster.finish(0, other).has_value());
        CHECK(cluster.finish(0, pull).has_value());
        CHECK(cluster.pulled(5) == 1);
        CHECK(client.open_requests() == 0);
        CHECK(client.is_referenced({cluster.memory, kLateBytes}));  // that of `late` is kept aside
    }

    TEST_CASE("what is kept aside while its shard is out of reach is left out of its queue") {
        LateCluster cluster(true);
        ClientCore& client = cluster.client();
        const auto late = cluster.push(kMillisecond);
        const auto other = cluster.push(50 * kMillisecond);
        const auto last = cluster.push(0);
        const auto poll_often = [&] {
            for (int i = 0; i < 200; ++i)
                (void)client.poll();
        };
        for (poll_often(); !client.done(late); poll_often()) {
            if (!cluster.network.step()) cluster.clock.advance(10 * kMicrosecond);
        }
        REQUIRE(client.take(late).code() == Errc::kDeadline);
        REQUIRE_FALSE(client.done(other));
        // Its deadline comes before the next connection, over which it would be sent again.
        cluster.clock.advance(100 * kMillisecond);
        poll_often();
        CHECK(client.take(other).code() == Errc::kDeadline);
        CHECK(cluster.finish(0, last).has_value());
        CHECK(client.open_requests() == 0);
        CHECK(client.is_referenced({cluster.memory, kLateBytes}));
    }

    TEST_CASE(
        "without the peer's confirmation the memory of a part is kept aside; it is withdrawn") {
        LateCluster cluster(true);
        ClientCore& client = cluster.client();
        const std::span<const std::byte> bytes = std::as_bytes(cluster.values);
        const auto late = client.push(cluster.table, KeyRange{0, kLateKeys}, bytes,
                                      {.iteration = 1, .deadline_ns = kMillisecond});
        cluster.run_without_shard(cluster.clock.now_ns() + 20 * kMillisecond);
        REQUIRE(client.done(late));
        const Status ended = client.take(late);
        CHECK(ended.code() == Errc::kDeadline);
        CHECK(ended.error().text().find("this client does not use that memory again") !=
              std::string::npos);
        CHECK(client.is_referenced({cluster.memory, kLateBytes}));
        const std::vector<uint64_t> one{10};
        const auto next = client.push(cluster.table, KeyRange{3, 4}, std::as_bytes(std::span(one)),
                                      {.iteration = 2});
        CHECK(cluster.finish(0, next).has_value());
        CHECK(cluster.pulled(3) == 10);
        CHECK(client.open_requests() == 0);
        CHECK(client.is_referenced({cluster.memory, kLateBytes}));
    }

    TEST_CASE("while a connection is broken, a client sleeps until the next attempt") {
        LateCluster cluster(false);
        ClientCore& client = cluster.client();
        CHECK(client.sleep_ns_max() == ~uint64_t{0});
        cluster.network.kill(0);  // manager and shard
        const auto push = cluster.push(0);
        size_t sleeps = 0;
        for (int i = 0; i < 5000 && !client.done(push); ++i) {
            (void)client.poll();
            if (client.sleep_ns_max() > 0) ++sleeps;
            if (!cluster.network.step()) cluster.clock.advance(100 * kMicrosecond);
        }
        CHECK(sleeps > 0);
        (void)cluster.run_until([&] { return client.done(push); });
    }
}

}  // namespace weir::test

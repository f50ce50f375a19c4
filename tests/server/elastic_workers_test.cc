// SPDX-License-Identifier: Apache-2.0
/// \file
/// Workers that join a running job, leave it and die, seen from the manager and from the others; and what
/// the death of a server means for their calls.

#include <algorithm>
#include <array>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "tests/cluster/sim_cluster.h"

namespace weir::test {
namespace {

void push_works(SimCluster& cluster, uint32_t worker, const TableInfo& table) {
    const std::vector<float> ones(8, 1);
    const auto push =
        cluster.workers[worker]->push(table, KeyRange{0, 8}, std::as_bytes(std::span(ones)), {});
    REQUIRE(cluster.finish(worker, push).has_value());
}

}  // namespace

TEST_SUITE("elastic_workers") {
    TEST_CASE("a clean leaver is out of the view, and the others go on") {
        SimCluster cluster(1, {}, {});
        REQUIRE(cluster.start());
        const auto table = cluster.make_table(0, dense_table("numbers", 8));
        REQUIRE(table.has_value());
        const uint64_t before = cluster.workers[0]->epoch();
        CHECK(cluster.finish(1, cluster.workers[1]->leave({}, 0)).has_value());
        cluster.run_idle(3);
        CHECK(cluster.workers[0]->epoch() == before + 1);
        CHECK(cluster.workers[2]->epoch() == before + 1);
        push_works(cluster, 0, *table);
        const auto first = cluster.workers[0]->barrier(0);
        const auto second = cluster.workers[2]->barrier(0);
        CHECK(cluster.finish(0, first).has_value());
        CHECK(cluster.finish(2, second).has_value());
    }

    TEST_CASE("a job that goes on without its dead opens the barrier for the living") {
        SimCluster cluster(2, {.on_worker_loss = OnWorkerLoss::kContinue}, {});
        REQUIRE(cluster.start());
        const auto first = cluster.workers[0]->barrier(0);
        const auto second = cluster.workers[1]->barrier(0);
        cluster.run_idle(3);
        CHECK_FALSE(cluster.workers[0]->done(first));
        cluster.network.kill(cluster.host_of_worker(2));
        cluster.workers[2].reset();
        CHECK(cluster.finish(0, first).has_value());
        CHECK(cluster.finish(1, second).has_value());
        cluster.run_idle(3);
        CHECK(cluster.manager->view().workers().size() == 2);
    }

    TEST_CASE(
        "a job that goes on without its lost closes iterations without who gives up or dies") {
        for (const bool dies : {false, true}) {
            CAPTURE(dies);
            SimShape shape;
            shape.on_worker_loss = OnWorkerLoss::kContinue;
            StartedCluster cluster(3, shape, dense_table("numbers", 8));
            const std::vector<std::byte> row(8 * cluster.table.row_bytes);
            const auto push = [&](uint32_t worker, uint64_t iteration) {
                return cluster.workers[worker]->push(cluster.table, KeyRange{0, 8}, row,
                                                     {iteration, 0});
            };
            const auto first = push(0, 1);
            const auto second = push(1, 1);
            cluster.run_idle(3);
            CHECK_FALSE(cluster.workers[0]->done(first));
            if (dies) {
                cluster.network.kill(cluster.host_of_worker(2));
                cluster.workers[2].reset();
            } else {
                (void)cluster.workers[2]->leave(Error(Errc::kIo, "disk full"), 0);
            }
            CHECK(cluster.finish(0, first).has_value());
            CHECK(cluster.finish(1, second).has_value());
            const auto next = push(0, 2);
            CHECK(cluster.finish(1, push(1, 2)).has_value());
            CHECK(cluster.finish(0, next).has_value());
        }
    }

    TEST_CASE("a worker joins while others train, pushes, and leaves") {
        SimShape shape;
        StartedCluster cluster(12, shape, dense_table("numbers", 8));
        ClientCore& joiner = cluster.add_joining_worker();
        REQUIRE(cluster.run_until([&] { return joiner.ready() || joiner.finished(); }));
        INFO((joiner.failure() ? "" : joiner.failure().error().message()));
        REQUIRE(joiner.ready());
        CHECK(joiner.worker() == 3);
        push_works(cluster, 3, cluster.table);
        push_works(cluster, 0, cluster.table);
        CHECK(cluster.manager->view().workers().size() == 4);
        CHECK(cluster.finish(3, joiner.leave({}, 0)).has_value());
        cluster.run_idle(3);
        CHECK(cluster.manager->view().workers().size() == 3);
        push_works(cluster, 1, cluster.table);
    }

    TEST_CASE("a worker that asks to join while a server is out of reach holds up no training") {
        for (const auto way :
             {SimCluster::Way::kBoth, SimCluster::Way::kToManager, SimCluster::Way::kFromManager}) {
            CAPTURE(static_cast<int>(way));
            SimShape shape;
            shape.shards = 1;
            shape.workers = 2;
            shape.is_manager_apart = true;
            StartedCluster cluster(1, shape, dense_table("numbers", 8));
            const std::vector<float> ones(8, 1);
            uint64_t iteration = 0;
            // How long an iteration takes.
            const auto train = [&] {
                const uint64_t begin_ns = cluster.clock.now_ns();
                CallOptions options;
                options.iteration = ++iteration;
                ClientCore::CallId pushes[2];
                for (uint32_t i = 0; i < 2; ++i)
                    pushes[i] = cluster.workers[i]->push(cluster.table, KeyRange{0, 8},
                                                         std::as_bytes(std::span(ones)), options);
                for (uint32_t i = 0; i < 2; ++i)
                    CHECK(cluster.finish(i, pushes[i]));
                return cluster.clock.now_ns() - begin_ns;
            };
            (void)train();
            cluster.part_from_manager(1, way);
            ClientCore& joiner = cluster.add_joining_worker();
            const uint64_t end_ns = cluster.clock.now_ns() + 20 * kSecond;
            uint64_t longest_ns = 0;
            uint64_t waited_ns = 0;
            while (cluster.clock.now_ns() < end_ns) {
                const uint64_t took_ns = train();
                longest_ns = std::max(longest_ns, took_ns);
                waited_ns += took_ns;
                cluster.run_idle(20);
            }
            CHECK(longest_ns < 2 * shape.lease_ns);
            CHECK(waited_ns < 10 * kSecond);
            CHECK_FALSE(joiner.ready());
            INFO((joiner.failure() ? "" : joiner.failure().error().message()));
            CHECK_FALSE(joiner.finished());
            cluster.heal_to_manager(1);
            CHECK(cluster.run_until([&] { return joiner.ready() || joiner.finished(); }));
            CHECK(joiner.ready());
        }
    }

    TEST_CASE("without copies the death of a server ends a call with the keys that it has there") {
        StartedCluster cluster(14, {}, dense_table("numbers", 1000));
        const std::vector<float> ones(1000, 1.0F);
        const auto call = cluster.workers[0]->push(cluster.table, KeyRange{0, 1000},
                                                   std::as_bytes(std::span(ones)), {});
        cluster.network.kill(1);
        const Status ended = cluster.finish(0, call);
        REQUIRE(ended.code() == Errc::kPeerLost);
        INFO(ended.error().text());
        const View view = cluster.manager->view();
        bool is_named = false;
        for (const OwnedKeys& piece : view.split_dense({0, 1000}, 1000, SplitBy::kOwner)) {
            const std::string keys =
                fmt::format("it has {} keys of this call, {} to {}", piece.keys.key_count(),
                            piece.keys.begin, piece.keys.end - 1);
            is_named |= ended.error().text().find(keys) != std::string::npos;
        }
        CHECK(is_named);
        CHECK(ended.error().text().find("may have been applied, once at most") !=
              std::string::npos);
        std::vector<float> out(1000);
        const auto pull = cluster.workers[0]->pull(cluster.table, KeyRange{0, 1000},
                                                   std::as_writable_bytes(std::span(out)), {});
        const Status pulled = cluster.finish(0, pull);
        REQUIRE(pulled.code() == Errc::kPeerLost);
        CHECK(pulled.error().text().find("applied") == std::string::npos);
    }

    TEST_CASE(
        "a worker that has withdrawn its part and leaves fails the iteration, for all shards") {
        StartedCluster cluster(13, {}, dense_table("numbers", 8));
        std::array<float, 8> ones{};
        const auto push = [&](uint32_t worker, uint64_t deadline_ns) {
            CallOptions options{1};
            options.deadline_ns = deadline_ns;
            return cluster.workers[worker]->push(cluster.table, KeyRange{0, 8},
                                                 std::as_bytes(std::span(ones)), options);
        };
        CHECK(cluster.finish(0, push(0, kMillisecond)).code() == Errc::kDeadline);
        CHECK(cluster.finish(0, cluster.workers[0]->leave({}, 0)).has_value());
        cluster.run_idle(3);
        const uint32_t table = cluster.table.schema.id;
        CHECK(cluster.manager->view().data().withdrawals ==
              std::vector{ViewWithdrawal{0, table, 1, 1}});
        const std::array parts{push(1, 0), push(2, 0)};
        CHECK(cluster.finish(1, parts[0]).code() == Errc::kCancelled);
        CHECK(cluster.finish(2, parts[1]).code() == Errc::kCancelled);
    }

    TEST_CASE("a worker that joins and dies before it has done anything changes nothing") {
        for (uint64_t seed = 1; seed < 40; ++seed) {
            CAPTURE(seed);
            SimCluster cluster(seed, {}, {});
            REQUIRE(cluster.start());
            (void)cluster.add_joining_worker();
            for (uint64_t i = 0; i < seed; ++i)
                (void)cluster.step();
            if (cluster.workers[3]->ready()) continue;
            cluster.network.kill(cluster.host_of_worker(3));
            cluster.workers[3].reset();
            (void)cluster.run_until([] { return false; }, 300);
            CHECK(cluster.manager->view().workers().size() == 3);
            std::array<ClientCore::CallId, 3> barriers{};
            for (uint32_t worker = 0; worker < 3; ++worker)
                barriers[worker] = cluster.workers[worker]->barrier(0);
            for (uint32_t worker = 0; worker < 3; ++worker)
                CHECK(cluster.finish(worker, barriers[worker]).has_value());
        }
    }
}

}  // namespace weir::test

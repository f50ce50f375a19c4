// SPDX-License-Identifier: Apache-2.0
/// \file
/// Connections to the manager that break between living processes, and what proves a death.

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "lib/base/random.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/log_lines.h"
#include "tests/seed.h"

namespace weir::test {
namespace {

constexpr uint32_t kManager = SimCluster::kManagersHost;

SimShape shape_of(OnWorkerLoss on_worker_loss) {
    SimShape shape;
    shape.is_manager_apart = true;
    shape.on_worker_loss = on_worker_loss;
    return shape;
}

/// Whether the view has the worker.
bool has_worker(const SimCluster& cluster, uint32_t worker) {
    const View view = cluster.manager->view();
    return view.worker(worker) != nullptr;
}

/// Simulated time passes, with all that happens in it.
void pass(SimCluster& cluster, uint64_t ns) {
    const uint64_t end_ns = cluster.clock.now_ns() + ns;
    REQUIRE(cluster.run_until([&] { return cluster.clock.now_ns() >= end_ns; }));
}

}  // namespace

TEST_SUITE("manager_link") {
    TEST_CASE("whatever breaks, each question to the manager is answered, and once") {
        const uint64_t first = testing::seed_or(1);
        uint64_t cuts = 0;
        for (uint64_t seed = first; seed < first + testing::histories_or(100); ++seed) {
            INFO("WEIR_SEED=" << seed);
            Random random(seed);
            SimCluster cluster(random(), shape_of(OnWorkerLoss::kStop), {});
            REQUIRE(cluster.start());
            for (uint32_t round = 0; round < 6; ++round) {
                std::vector<ClientCore::CallId> tables;
                std::vector<ClientCore::CallId> barriers;
                for (const auto& worker : cluster.workers) {
                    tables.push_back(worker->create_table(
                        dense_table(fmt::format("table {}", round), 64, ValueType::kUInt64)));
                    barriers.push_back(worker->barrier(kSecond * 100));
                }
                const uint64_t until = random.below(60);
                for (uint64_t step = 0; step < until; ++step) {
                    if (random.below(10) == 0) {
                        cluster.cut_from_manager(
                            static_cast<uint32_t>(random.below(cluster.host_count())));
                        ++cuts;
                    }
                    (void)cluster.step();
                }
                for (uint32_t worker = 0; worker < cluster.workers.size(); ++worker) {
                    ClientCore& client = *cluster.workers[worker];
                    REQUIRE(cluster.run_until([&] { return client.done(tables[worker]); }));
                    const Result<TableInfo> table = client.take_table(tables[worker]);
                    REQUIRE(table.has_value());
                    CHECK(table->schema.id == round);
                    CHECK(cluster.finish(worker, barriers[worker]).has_value());
                }
            }
            CHECK(cluster.manager->view().epoch() == 1);  // nobody was taken for dead
            std::vector<ClientCore::CallId> leaves;
            for (const auto& worker : cluster.workers)
                leaves.push_back(worker->leave({}, 0));
            cluster.cut_from_manager(cluster.host_of_worker(0));
            for (uint32_t worker = 0; worker < cluster.workers.size(); ++worker)
                CHECK(cluster.finish(worker, leaves[worker]).has_value());
            CHECK(cluster.run_until([&] { return cluster.manager->finished(); }));
            CHECK(cluster.manager->outcome().has_value());
        }
        CHECK(cuts >= testing::histories_or(100) * 5);
    }

    TEST_CASE("a worker that is cut off lives on, and one that is killed is lost") {
        SimCluster cluster(1, shape_of(OnWorkerLoss::kContinue), {});
        REQUIRE(cluster.start());
        cluster.cut_from_manager(cluster.host_of_worker(1));
        pass(cluster, 5 * kSecond);
        CHECK(has_worker(cluster, 1));
        cluster.network.kill(cluster.host_of_worker(1));
        const uint64_t killed_ns = cluster.clock.now_ns();
        CHECK(cluster.run_until([&] { return !has_worker(cluster, 1); }));
        CHECK(cluster.clock.now_ns() - killed_ns < kSecond / 2);  // before any lease
    }

    TEST_CASE("a worker out of reach is lost after its lease, and is told when it is back") {
        SimCluster cluster(2, shape_of(OnWorkerLoss::kContinue), {});
        REQUIRE(cluster.start());
        cluster.network.partition(kManager, cluster.host_of_worker(1));
        const uint64_t cut_ns = cluster.clock.now_ns();
        CHECK(cluster.run_until([&] { return !has_worker(cluster, 1); }));
        CHECK(cluster.clock.now_ns() - cut_ns > kSecond);
        CHECK(cluster.workers[1]->failure().has_value());  // it does not know
        cluster.network.heal(kManager, cluster.host_of_worker(1));
        CHECK(cluster.run_until([&] { return !cluster.workers[1]->failure(); }));
        CHECK(cluster.workers[1]->failure().error().text().find("out of reach") !=
              std::string::npos);
        CHECK_FALSE(has_worker(cluster, 1));
    }

    TEST_CASE("a worker that gives up while its link is broken is lost, though its process lives") {
        SimCluster cluster(6, shape_of(OnWorkerLoss::kContinue), {});
        REQUIRE(cluster.start());
        const uint32_t host = cluster.host_of_worker(1);
        cluster.network.partition(kManager, host);
        pass(cluster, 200 * kMillisecond);
        cluster.workers[1].reset();  // it cannot say so
        cluster.network.heal(kManager, host);
        const uint64_t since_ns = cluster.clock.now_ns();
        pass(cluster, 10 * kSecond);
        CHECK(has_worker(cluster, 1));  // for all that the manager knows it may come back
        REQUIRE(cluster.run_until([&] { return !has_worker(cluster, 1); }, 10'000'000));
        CHECK(cluster.clock.now_ns() - since_ns > ManagerLink::kGiveUpNs);
        CHECK(cluster.clock.now_ns() - since_ns < ManagerLink::kGiveUpNs + 3 * kSecond);
        const auto first = cluster.workers[0]->barrier(kSecond);  // nobody waits for it any more
        const auto third = cluster.workers[2]->barrier(kSecond);
        CHECK(cluster.finish(0, first).has_value());
        CHECK(cluster.finish(2, third).has_value());
    }

    TEST_CASE("a server out of reach is waited for; pushes go on, and the rest when it is back") {
        SimCluster cluster(3, shape_of(OnWorkerLoss::kStop), {});
        REQUIRE(cluster.start());
        const auto table = cluster.make_table(0, dense_table("a", 1000, ValueType::kUInt64));
        REQUIRE(table.has_value());
        cluster.network.partition(kManager, 1);
        pass(cluster, 20 * kSecond);
        CHECK(cluster.manager->view().epoch() == 1);
        const std::vector<uint64_t> ones(1000, 1);
        const auto push =
            cluster.workers[0]->push(*table, KeyRange{0, 1000}, std::as_bytes(std::span(ones)), {});
        CHECK(cluster.finish(0, push).has_value());
        const auto made = cluster.workers[0]->create_table(dense_table("b", 8, ValueType::kUInt64));
        pass(cluster, 5 * kSecond);
        CHECK_FALSE(cluster.workers[0]->done(made));  // all shards have to make it
        cluster.network.heal(kManager, 1);
        CHECK(cluster.finish(0, made).has_value());
    }

    TEST_CASE("the end of the manager's process is told to all, at once") {
        SimCluster cluster(4, shape_of(OnWorkerLoss::kStop), {});
        REQUIRE(cluster.start());
        cluster.network.kill(kManager);
        const uint64_t killed_ns = cluster.clock.now_ns();
        const auto barrier = cluster.workers[0]->barrier(kSecond * 100);
        const Status waited = cluster.finish(0, barrier);
        REQUIRE(waited.code() == Errc::kPeerLost);
        CHECK(waited.error().text().find("its process has ended") != std::string::npos);
        CHECK(cluster.clock.now_ns() - killed_ns < kSecond);
    }

    TEST_CASE(
        "what a server holds that dies with the manager is lost with the manager's end as the "
        "reason") {
        SimCluster cluster(6, SimShape{}, {});
        REQUIRE(cluster.start());
        const auto table = cluster.make_table(0, dense_table("a", 1000, ValueType::kUInt64));
        REQUIRE(table.has_value());
        cluster.network.kill(0);  // with the manager and a server
        const std::vector<uint64_t> ones(1000, 1);
        for (int round = 0; round < 2; ++round) {  // the second one knows it when it begins
            const auto push = cluster.workers[0]->push(*table, KeyRange{0, 1000},
                                                       std::as_bytes(std::span(ones)), {});
            const Status pushed = cluster.finish(0, push);
            REQUIRE(pushed.code() == Errc::kPeerLost);
            const std::string text = pushed.error().text();
            INFO(text);
            CHECK(text.starts_with(
                "the manager (rank 0) is gone: its process has ended; without it the job "
                "cannot go on: start it again; shard "));
            CHECK(text.find("% of the parameters at least are lost with its server, because nobody "
                            "else has them: "
                            "keys ") != std::string::npos);
            CHECK(text.find(" of table 'a'") != std::string::npos);
        }
        const auto barrier = cluster.workers[0]->barrier(kSecond);
        CHECK(cluster.finish(0, barrier)
                  .error()
                  .text()
                  .starts_with("the manager (rank 0) is gone: "));
    }

    TEST_CASE("a server whose lease has ended names a busy host as a possible cause") {
        SimShape shape = shape_of(OnWorkerLoss::kStop);
        shape.replicas = 1;
        SimCluster cluster(7, shape, {});
        REQUIRE(cluster.start());
        const auto table = cluster.make_table(0, dense_table("a", 1000, ValueType::kUInt64));
        REQUIRE(table.has_value());
        pass(cluster, 5 * kSecond);  // the copies are made
        const testing::LogLines log(LogLevel::kWarning);
        for (uint32_t server = 0; server < shape.servers; ++server)
            cluster.network.partition(kManager, server);
        pass(cluster, shape.lease_ns + kSecond / 10);
        const std::vector<uint64_t> ones(1000, 1);
        (void)cluster.workers[0]->push(*table, KeyRange{0, 1000}, std::as_bytes(std::span(ones)),
                                       {});
        pass(cluster, kSecond / 20);
        CHECK(log.has(
            "does not answer, or cannot be reached, or this host or the manager's is so busy"));
    }

    TEST_CASE("a manager that cannot be reached is tried for two minutes") {
        SimCluster cluster(5, shape_of(OnWorkerLoss::kStop), {});
        REQUIRE(cluster.start());
        cluster.network.partition(kManager, cluster.host_of_worker(0));
        const uint64_t cut_ns = cluster.clock.now_ns();
        const auto barrier = cluster.workers[0]->barrier(kSecond * 1000);
        REQUIRE(cluster.run_until([&] { return cluster.workers[0]->done(barrier); }, 1'000'000));
        const Status waited = cluster.workers[0]->take(barrier);
        REQUIRE(waited.code() == Errc::kPeerLost);
        CHECK(waited.error().text().find("cannot be reached for") != std::string::npos);
        CHECK(cluster.clock.now_ns() - cut_ns > ManagerLink::kGiveUpNs);
    }
}

}  // namespace weir::test

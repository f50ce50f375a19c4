// SPDX-License-Identifier: Apache-2.0
/// \file
/// Several managers: one dies, is stopped or cut off, and another one leads; the job goes on.

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cluster/checkpoint_folder.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/log_lines.h"

namespace weir::test {
namespace {

constexpr uint64_t kManagedKeys = 1000;

/// A cluster with three managers and a table of counters.
class ManagedCluster : public SimCluster {
public:
    explicit ManagedCluster(uint64_t seed, uint32_t replicas = 0, uint32_t servers = 3,
                            const CheckpointOptions& checkpoints = {})
        : SimCluster(seed, shape_of(replicas, servers, checkpoints), {.maps_memory = true}) {
        REQUIRE(start());
        auto made = make_table(0, dense_table("counters", kManagedKeys, ValueType::kUInt64));
        REQUIRE(made.has_value());
        table = *std::move(made);
    }

    [[nodiscard]] uint32_t leader() {
        REQUIRE(run_until([&] { return leading_manager() != ~uint32_t{0}; }));
        return leading_manager();
    }

    [[nodiscard]] View view() { return managers[leader()]->view(); }

    /// Adds 1 to all counters.
    void push(uint32_t worker = 0) {
        REQUIRE(finish(worker, workers[worker]->push(table, KeyRange{0, kManagedKeys},
                                                     std::as_bytes(std::span(ones_)), {})));
        ++sum;
    }

    void check_sum() {
        std::vector<uint64_t> values(kManagedKeys);
        REQUIRE(finish(0, workers[0]->pull(table, KeyRange{0, kManagedKeys},
                                           std::as_writable_bytes(std::span(values)), {})));
        CHECK(std::ranges::all_of(values, [&](uint64_t value) { return value == sum; }));
    }

    [[nodiscard]] Status barrier() {
        std::vector<ClientCore::CallId> calls;
        for (auto& worker : workers)
            calls.push_back(worker->barrier(0));
        for (uint32_t i = 0; i < calls.size(); ++i) {
            if (Status passed = finish(i, calls[i]); !passed) return passed;
        }
        return {};
    }

    /// All workers leave; waits for nothing.
    void start_leaving() {
        for (auto& worker : workers)
            (void)worker->leave({}, 0);
    }

    /// Those that live end in order.
    void check_end_of_shards() {
        REQUIRE(run_until([&] {
            return std::ranges::all_of(
                shards, [](const auto& shard) { return shard == nullptr || shard->finished(); });
        }));
        for (const auto& shard : shards)
            CHECK((shard == nullptr || shard->outcome()));
    }

    void leave_all() {
        start_leaving();
        check_end_of_shards();
        REQUIRE(run_until([&] {
            return std::ranges::all_of(
                managers, [](const auto& one) { return one == nullptr || one->finished(); });
        }));
        for (const auto& one : managers)
            CHECK((one == nullptr || one->outcome()));
    }

    TableInfo table;
    uint64_t sum = 0;

private:
    static SimShape shape_of(uint32_t replicas, uint32_t servers,
                             const CheckpointOptions& checkpoints) {
        SimShape shape;
        shape.servers = servers;
        shape.workers = 2;
        shape.managers = 3;
        shape.replicas = replicas;
        shape.checkpoints = checkpoints;
        return shape;
    }

    std::vector<uint64_t> ones_ = std::vector<uint64_t>(kManagedKeys, 1);
};

}  // namespace

TEST_SUITE("managers") {
    TEST_CASE("a job with three managers begins, works and ends") {
        ManagedCluster cluster(1);
        cluster.push();
        REQUIRE(cluster.barrier());
        cluster.check_sum();
        cluster.leave_all();
    }

    TEST_CASE("the one that leads dies: another one leads within a second, and all goes on") {
        for (uint64_t seed = 1; seed <= 5; ++seed) {
            CAPTURE(seed);
            ManagedCluster cluster(seed);
            cluster.push();
            const uint32_t first = cluster.leader();
            const View before = cluster.view();
            cluster.kill_manager(first);
            const uint64_t killed_ns = cluster.clock.now_ns();
            cluster.push();  // needs no manager
            const uint32_t second = cluster.leader();
            CHECK(second != first);
            REQUIRE(cluster.barrier());
            CHECK(cluster.clock.now_ns() - killed_ns < kSecond);
            for (auto& worker : cluster.workers) {
                const std::vector<JobEvent> events = worker->take_events();
                REQUIRE(events.size() == 1);
                CHECK(events[0].kind == JobEvent::Kind::kManagerLeads);
                CHECK(events[0].number == second);
                CHECK(events[0].age.count() < int64_t{kSecond});
            }
            CHECK(cluster.view().data() == before.data());
            REQUIRE(cluster.make_table(1, sparse_table("more", ValueType::kFloat32)));
            cluster.push(1);
            cluster.check_sum();
            cluster.leave_all();
        }
    }

    TEST_CASE("the one that leads is stopped and goes on later: it does no harm") {
        ManagedCluster cluster(7);
        cluster.push();
        const uint32_t first = cluster.leader();
        cluster.stopped_hosts.insert(SimCluster::kManagersHost + first);
        cluster.push();
        const uint32_t second = cluster.leader();
        CHECK(second != first);
        REQUIRE(cluster.barrier());
        cluster.stopped_hosts.erase(SimCluster::kManagersHost + first);
        cluster.run_idle(500);
        CHECK_FALSE((cluster.managers[0]->leads() && cluster.managers[1]->leads()));
        REQUIRE(cluster.barrier());
        cluster.kill_manager(cluster.leader());
        REQUIRE(cluster.barrier());  // the one that was stopped knows all
        cluster.check_sum();
        cluster.leave_all();
    }

    TEST_CASE("the one that leads hands over, and what members ask meanwhile is done once") {
        for (uint64_t seed = 1; seed <= 5; ++seed) {
            CAPTURE(seed);
            ManagedCluster cluster(seed);
            cluster.push();
            const uint32_t first = cluster.leader();
            const uint64_t before_ns = cluster.clock.now_ns();
            cluster.want_handover(first);
            REQUIRE(cluster.barrier());
            REQUIRE(cluster.run_until([&] { return cluster.handover(first) == Handover::kDone; }));
            CHECK(cluster.leader() == (first + 1) % 3);
            // Nobody's silence had to be waited for.
            CHECK(cluster.clock.now_ns() - before_ns < 100 * kMillisecond);
            REQUIRE(cluster.barrier());
            cluster.push();
            cluster.check_sum();
            cluster.leave_all();
        }
    }

    TEST_CASE(
        "it hands over to the one that is left; the last one that can lead says that it stays") {
        ManagedCluster cluster(1);
        const uint32_t first = cluster.leader();
        const uint32_t dead = (first + 1) % 3;
        cluster.kill_manager(dead);
        cluster.want_handover(first);
        REQUIRE(cluster.run_until([&] { return cluster.handover(first) == Handover::kDone; }));
        const uint32_t second = cluster.leader();
        CHECK(second == 3 - first - dead);
        cluster.stopped_hosts.insert(SimCluster::kManagersHost + first);
        cluster.want_handover(second);
        REQUIRE(
            cluster.run_until([&] { return cluster.handover(second) == Handover::kImpossible; }));
        cluster.stopped_hosts.clear();
        REQUIRE(cluster.barrier());
        cluster.push();
        cluster.check_sum();
        cluster.leave_all();
    }

    TEST_CASE(
        "the one that leads takes its signal for the end of the job, but not if its process "
        "leaves") {
        SimShape shape;
        shape.managers = 3;
        shape.on_worker_loss = OnWorkerLoss::kReassign;
        shape.is_being_stopped = [] { return true; };
        SimCluster cluster(1, shape, {});
        REQUIRE(cluster.start());
        std::vector<ClientCore::CallId> calls;
        for (auto& worker : cluster.workers)
            calls.push_back(worker->take_work(1, ~uint64_t{0}));
        for (uint32_t i = 0; i < calls.size(); ++i)
            REQUIRE(cluster.run_until([&] { return cluster.workers[i]->done(calls[i]); }));
        const auto may_give_back = [&] {
            return cluster.finish(0, cluster.workers[0]->ask_about_work(WorkAsk::kMayGiveBack));
        };
        CHECK(may_give_back().code() == Errc::kCancelled);
        cluster.process_leaves(cluster.leading_manager());
        CHECK(may_give_back().has_value());
    }

    TEST_CASE("servers with copies die before and after another manager leads") {
        for (uint64_t seed = 1; seed <= 3; ++seed) {
            CAPTURE(seed);
            ManagedCluster cluster(seed, 1, 4);
            const auto has_copies = [&] {
                const View view = cluster.view();
                return std::ranges::all_of(view.segments(), [](const ViewSegment& segment) {
                    return segment.backup_count() >= 1;
                });
            };
            REQUIRE(cluster.run_until(has_copies));
            cluster.push();
            const auto kill_server = [&](uint32_t server) {
                cluster.kill_host(server);
                for (uint32_t shard = 0; shard < 2; ++shard)
                    cluster.shards[server * 2 + shard].reset();
            };
            kill_server(1);
            cluster.kill_manager(cluster.leader());  // it may know it, or not
            cluster.push();
            REQUIRE(cluster.run_until(
                [&] { return cluster.view().server(1) == nullptr && has_copies(); }));
            kill_server(2);
            cluster.push();
            cluster.check_sum();
            REQUIRE(cluster.barrier());
            cluster.leave_all();
        }
    }

    TEST_CASE("a checkpoint that is asked for at one that does not lead is written once") {
        for (uint64_t seed = 1; seed <= 3; ++seed) {
            CAPTURE(seed);
            CheckpointFolder folder;
            ManagedCluster cluster(seed, 0, 3, folder.options());
            cluster.push();
            for (const uint64_t number : {1, 2}) {
                cluster.asked_managers.insert((cluster.leader() + static_cast<uint32_t>(number)) %
                                              3);
                cluster.run_idle(3000);
                CHECK(cluster.asked_managers.empty());
                CHECK(folder.latest().number == number);
                CHECK(checkpoint::list_checkpoints(*folder.disk, folder.folder)->size() == number);
            }
            cluster.leave_all();
        }
    }

    TEST_CASE("a checkpoint that is asked for while the one that leads dies is written") {
        for (uint64_t steps = 0; steps < 20; ++steps) {
            CAPTURE(steps);
            CheckpointFolder folder;
            ManagedCluster cluster(steps + 1, 0, 3, folder.options());
            cluster.push();
            const uint32_t leader = cluster.leader();
            cluster.asked_managers.insert((leader + 1) % 3);
            for (uint64_t step = 0; step < 3 * steps; ++step)
                (void)cluster.step();
            cluster.kill_manager(leader);
            cluster.run_idle(6000);
            CHECK(checkpoint::latest(*folder.disk, folder.folder).has_value());
            cluster.leave_all();
        }
    }

    TEST_CASE("when most managers are dead, the job ends with that as the reason") {
        ManagedCluster cluster(1);
        cluster.push();
        cluster.kill_manager(0);
        cluster.kill_manager(2);
        const Status passed = cluster.barrier();
        REQUIRE_FALSE(passed);
        CHECK(passed.code() == Errc::kPeerLost);
        CHECK(passed.error().text().find("most managers") != std::string::npos);
        cluster.push(1);  // shards serve until all workers are gone, as with one manager
    }

    TEST_CASE(
        "what two servers held that die with most managers is named with that as the reason") {
        ManagedCluster cluster(1, 1);
        REQUIRE(cluster.run_until([&] {
            const View view = cluster.view();
            return std::ranges::all_of(view.segments(), [](const ViewSegment& segment) {
                return segment.backup_count() == 1;
            });
        }));
        cluster.push();
        cluster.kill_manager(0);
        cluster.kill_manager(2);
        for (uint32_t server = 0; server < 2; ++server) {
            cluster.kill_host(server);
            cluster.shards[server].reset();
        }
        const std::vector<uint64_t> ones(kManagedKeys, 1);
        ClientCore& worker = *cluster.workers[0];
        const Status pushed =
            cluster.finish(0, worker.push(cluster.table, KeyRange{0, kManagedKeys},
                                          std::as_bytes(std::span(ones)), {}));
        REQUIRE(pushed.code() == Errc::kPeerLost);
        const std::string text = pushed.error().text();
        INFO(text);
        CHECK(text.find("most managers") != std::string::npos);
        CHECK(text.find(
                  "% of the parameters at least are lost with its server, because nobody else has "
                  "them: keys ") != std::string::npos);
        CHECK(text.find("100 %") == std::string::npos);  // the third server has the rest
    }

    TEST_CASE(
        "a worker and a server that ask to join while nobody leads are taken by who leads next") {
        ManagedCluster cluster(3);
        cluster.kill_manager(cluster.leader());
        ClientCore& joins = cluster.add_joining_worker();
        (void)cluster.add_server();
        REQUIRE(cluster.run_until([&] { return joins.ready(); }));
        REQUIRE(cluster.run_until([&] { return cluster.view().servers().size() == 4; }));
        cluster.push(2);
        cluster.check_sum();
        cluster.leave_all();
    }

    TEST_CASE("the one that leads dies as the job ends: everybody hears that it has ended") {
        for (size_t steps = 0; steps < 60; ++steps) {
            CAPTURE(steps);
            ManagedCluster cluster(steps + 1);
            const uint32_t leader = cluster.leader();
            cluster.start_leaving();
            for (size_t step = 0; step < 2 * steps; ++step)
                (void)cluster.step();
            cluster.kill_manager(leader);
            cluster.check_end_of_shards();
        }
    }

    TEST_CASE("connections that are made anew as the job ends hear that it has ended") {
        for (size_t steps = 0; steps < 60; ++steps) {
            CAPTURE(steps);
            ManagedCluster cluster(steps + 1);
            const uint32_t leader = cluster.leader();
            cluster.start_leaving();
            for (size_t step = 0; step < steps; ++step)
                (void)cluster.step();
            for (uint32_t server = 0; server < 3; ++server)
                cluster.network.reset(SimCluster::kManagersHost + leader, server);
            cluster.lines_break();
            cluster.check_end_of_shards();
        }
    }

    TEST_CASE("one that was stopped takes what waits for it on its connections, and goes on") {
        ManagedCluster cluster(5);
        const uint32_t leader = cluster.leader();
        const uint32_t stopped = (leader + 1) % 3;
        cluster.stopped_hosts.insert(SimCluster::kManagersHost + stopped);
        const uint64_t until_ns = cluster.clock.now_ns() + 400 * kSecond;
        REQUIRE(cluster.run_until([&] { return cluster.clock.now_ns() >= until_ns; }, 1'000'000));
        cluster.stopped_hosts.erase(SimCluster::kManagersHost + stopped);
        cluster.run_idle(2000);
        cluster.kill_manager(leader);  // so it has to take part
        cluster.push();
        REQUIRE(cluster.barrier());
        cluster.check_sum();
        cluster.leave_all();
    }

    TEST_CASE("one that was away for longer than the log is kept takes no part, and does no harm") {
        ManagedCluster cluster(5);
        const uint32_t away = (cluster.leader() + 1) % 3;
        cluster.stopped_hosts.insert(SimCluster::kManagersHost + away);
        const uint64_t until_ns =
            cluster.clock.now_ns() + 400 * kSecond;  // 8 inputs a second, at least
        REQUIRE(cluster.run_until([&] { return cluster.clock.now_ns() >= until_ns; }, 1'000'000));
        for (uint32_t other = 0; other < 3; ++other) {  // what waits for it there is lost
            if (other != away)
                cluster.network.reset(SimCluster::kManagersHost + away,
                                      SimCluster::kManagersHost + other);
        }
        cluster.stopped_hosts.erase(SimCluster::kManagersHost + away);
        const uint32_t leader = cluster.leader();
        const testing::LogLines log;
        cluster.run_idle(2000);
        CHECK(log.text().find("long as they are most of the 3: it was away") != std::string::npos);
        CHECK(cluster.leader() == leader);
        CHECK_FALSE(
            cluster.managers[away]->finished());  // its end would look like that of its process
        CHECK(cluster.managers[away]->outcome());
        cluster.push();
        REQUIRE(cluster.barrier());
        cluster.check_sum();
        SUBCASE("its process may end, too") {
            cluster.kill_manager(away);
            REQUIRE(cluster.barrier());
            cluster.leave_all();
        }
        SUBCASE("if another one dies, most are gone, and the job ends") {
            cluster.kill_manager(3 - away - leader);
            const Status passed = cluster.barrier();
            REQUIRE(passed.code() == Errc::kPeerLost);
            CHECK(
                passed.error().text().find("most managers of the job (of ranks 0, 1, 2) are gone: "
                                           "their processes have ended, or they take no part any "
                                           "more") != std::string::npos);
        }
    }
}

}  // namespace weir::test

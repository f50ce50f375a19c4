// SPDX-License-Identifier: Apache-2.0
/// \file
/// The manager, seen from the workers and shards of a simulated cluster: which process is missing,
/// which one the others wait for, and which error they get.

#include "lib/manager/manager.h"

#include <array>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "tests/checkpoint/sim_disk.h"
#include "tests/cluster/checkpoint_folder.h"
#include "tests/cluster/sim_cluster.h"

namespace weir::test {
namespace {

bool mentions(const Status& status, const char* text) {
    return !status && status.error().message().find(text) != std::string::npos;
}

constexpr uint64_t kLossKeys = 3000;

SimShape shape_with_checkpoints(uint32_t replicas) {
    SimShape shape;
    shape.servers = 4;
    shape.shards = 1;
    shape.workers = 1;
    shape.replicas = replicas;
    shape.checkpoints.folder = "d";
    shape.checkpoints.disk =
        std::make_shared<checkpoint::DiskQueue>(std::make_shared<testing::SimDisk>());
    return shape;
}

Status push_every_key(SimCluster& cluster, const TableInfo& table) {
    const std::vector<float> ones(kLossKeys, 1.0F);
    const auto push =
        cluster.workers[0]->push(table, KeyRange{0, kLossKeys}, std::as_bytes(std::span(ones)), {});
    return cluster.finish(0, push);
}

bool has_written_checkpoint(SimCluster& cluster) {
    const auto call = cluster.workers[0]->checkpoint(0);
    REQUIRE(cluster.run_until([&] { return cluster.workers[0]->done(call); }));
    return cluster.workers[0]->take_checkpoint(call).has_value();
}

void cut_off(SimCluster& cluster, uint32_t host) {
    cluster.network.partition(host, SimCluster::kManagersHost);
    for (uint32_t other = 0; other < cluster.host_count(); ++other) {
        if (other != host) cluster.network.partition(host, other);
    }
}

}  // namespace

TEST_SUITE("manager") {
    TEST_CASE("who does not join in time is named, to everybody who did") {
        SimCluster cluster(1, {}, {});
        cluster.workers[1].reset();
        const auto failed = [&] { return cluster.workers[0]->finished(); };
        REQUIRE(cluster.run_until(failed));
        CHECK(mentions(cluster.workers[0]->failure(), "rank 1 (worker 1) did not join"));
        REQUIRE(cluster.run_until([&] { return cluster.shards[3]->finished(); }));
        CHECK(mentions(cluster.shards[3]->outcome(), "rank 1 (worker 1) did not join"));
    }

    TEST_CASE("a job starts whose shards' addresses do not fit into one message") {
        SimShape shape;
        shape.servers = 100;
        shape.shards = 2;
        shape.workers = 2;
        shape.message_bytes_max = 1024;
        SimCluster cluster(6, shape, {});
        REQUIRE(cluster.start());
        const auto table = cluster.make_table(1, sparse_table("counts"));
        REQUIRE(table.has_value());
        std::vector<uint64_t> keys(5000);
        for (uint64_t k = 0; k < keys.size(); ++k)
            keys[k] = k + 1;
        const std::vector<float> ones(keys.size(), 1.0F);
        const auto push =
            cluster.workers[0]->push(*table, keys, std::as_bytes(std::span(ones)), {});
        REQUIRE(cluster.finish(0, push).has_value());
        std::vector<float> out(keys.size());
        const auto pull =
            cluster.workers[1]->pull(*table, keys, std::as_writable_bytes(std::span(out)), {});
        REQUIRE(cluster.finish(1, pull).has_value());
        CHECK(out == ones);
    }

    TEST_CASE("a table that two make at once is made once, and one that nobody made is not found") {
        SimCluster cluster(2, {}, {});
        REQUIRE(cluster.start());
        const auto first = cluster.workers[0]->create_table(sparse_table("counts"));
        const auto second = cluster.workers[1]->create_table(sparse_table("counts"));
        REQUIRE(cluster.run_until(
            [&] { return cluster.workers[0]->done(first) && cluster.workers[1]->done(second); }));
        const auto a = cluster.workers[0]->take_table(first);
        const auto b = cluster.workers[1]->take_table(second);
        REQUIRE(a.has_value());
        REQUIRE(b.has_value());
        CHECK(a->schema.id == b->schema.id);
        CHECK(cluster.finish(2, cluster.workers[2]->open_table("u")).code() == Errc::kNotFound);
    }

    TEST_CASE("a table that a shard cannot make is refused in that shard's words") {
        SimCluster cluster(9, {}, {});
        REQUIRE(cluster.start());
        const auto call =
            cluster.workers[0]->create_table(dense_table("counts", uint64_t{1} << 62));
        REQUIRE(cluster.run_until([&] { return cluster.workers[0]->done(call); }));
        const auto table = cluster.workers[0]->take_table(call);
        REQUIRE_FALSE(table.has_value());
        INFO(table.error().message());
        CHECK(table.error().message().find("the table cannot be made: shard") == 0);
        CHECK(table.error().message().find("use more shards") != std::string::npos);
    }

    TEST_CASE("a table that cannot be made because a server died names that server") {
        for (const bool lost_before : {true, false}) {
            CAPTURE(lost_before);
            SimCluster cluster(10, {}, {});
            REQUIRE(cluster.start());
            cluster.network.kill(1);
            if (lost_before) (void)cluster.run_until([] { return false; }, 300);
            const auto call = cluster.workers[0]->create_table(sparse_table("counts"));
            REQUIRE(cluster.run_until([&] { return cluster.workers[0]->done(call); }));
            const auto table = cluster.workers[0]->take_table(call);
            REQUIRE_FALSE(table.has_value());
            CHECK(table.code() == Errc::kPeerLost);
            INFO(table.error().message());
            CHECK(table.error().message().find("server 1 (rank") != std::string::npos);
            CHECK(table.error().message().find("50 % of the parameters are lost") !=
                  std::string::npos);
        }
    }

    TEST_CASE(
        "the first table is made when everything has its copies, or when they cannot be had") {
        for (const bool is_cut : {false, true}) {
            CAPTURE(is_cut);
            SimShape shape;
            shape.servers = 2;
            shape.replicas = 1;
            shape.is_manager_apart = true;
            SimCluster cluster(11, shape, {});
            cluster.network.partition(0, 1);
            REQUIRE(cluster.start());
            const auto call = cluster.workers[0]->create_table(sparse_table("counts"));
            const auto lacks_copies = [&] {
                return std::ranges::any_of(cluster.manager->view().segments(),
                                           [](const auto& one) { return one.backup_count() == 0; });
            };
            (void)cluster.run_until([] { return false; }, 300);
            CHECK(lacks_copies());
            CHECK_FALSE(cluster.workers[0]->done(call));
            if (!is_cut) cluster.network.heal(0, 1);
            REQUIRE(cluster.run_until([&] { return cluster.workers[0]->done(call); }));
            CHECK(cluster.workers[0]->take_table(call).has_value());
            CHECK(lacks_copies() == is_cut);
        }
    }

    TEST_CASE("a job with copies that loses servers before it has tables goes on without them") {
        for (const bool is_silent : {false, true}) {
            for (const uint32_t lost : {1U, 2U}) {
                CAPTURE(is_silent);
                CAPTURE(lost);
                SimShape shape;
                shape.servers = 4;
                shape.replicas = 1;
                shape.is_manager_apart = true;
                SimCluster cluster(12, shape, {});
                REQUIRE(cluster.start());
                const auto call =
                    cluster.workers[0]->create_table(dense_table("weights", kLossKeys));
                for (uint32_t server = 0; server < lost; ++server)
                    is_silent ? cut_off(cluster, server) : cluster.kill_host(server);
                REQUIRE(cluster.run_until([&] { return cluster.workers[0]->done(call); }));
                const auto table = cluster.workers[0]->take_table(call);
                REQUIRE_MESSAGE(table.has_value(), table.error().message());
                const auto& segments = cluster.manager->view().segments();
                CHECK(cluster.manager->view().servers().size() == 4 - lost);
                CHECK(std::ranges::all_of(segments,
                                          [](const auto& one) { return one.backup_count() == 1; }));
                REQUIRE(push_every_key(cluster, *table).has_value());
                // It has copies from then on.
                cluster.kill_host(3);
                REQUIRE(push_every_key(cluster, *table).has_value());
                std::vector<float> out(kLossKeys);
                const auto pull = cluster.workers[0]->pull(
                    *table, KeyRange{0, kLossKeys}, std::as_writable_bytes(std::span(out)), {});
                REQUIRE(cluster.finish(0, pull).has_value());
                CHECK(std::ranges::count(out, 2.0F) == kLossKeys);
            }
        }
    }

    TEST_CASE("the first table waits for copies again, if a server has died since they were made") {
        SimShape shape;
        shape.servers = 3;
        shape.replicas = 1;
        shape.is_manager_apart = true;
        SimCluster cluster(18, shape, {});
        REQUIRE(cluster.start());
        cluster.run_idle(3000);
        const auto view = [&]() -> const View& { return cluster.manager->view(); };
        const auto has_copies = [&] {
            return std::ranges::all_of(view().segments(),
                                       [](const auto& one) { return one.backup_count() == 1; });
        };
        REQUIRE(has_copies());
        cluster.kill_host(1);
        REQUIRE(cluster.run_until([&] { return view().servers().size() == 2; }));
        CHECK_FALSE(has_copies());
        const auto call = cluster.workers[0]->create_table(sparse_table("counts"));
        REQUIRE(cluster.run_until([&] { return cluster.workers[0]->done(call); }));
        CHECK(cluster.workers[0]->take_table(call).has_value());
        CHECK(has_copies());
    }

    TEST_CASE(
        "a job whose last servers die before it has tables is lost, and so is one without copies") {
        for (const uint32_t replicas : {0U, 1U}) {
            CAPTURE(replicas);
            SimShape shape;
            shape.servers = 3;
            shape.replicas = replicas;
            shape.is_manager_apart = true;
            SimCluster cluster(13, shape, {});
            REQUIRE(cluster.start());
            for (uint32_t server = 0; server < (replicas == 0 ? 1U : 3U); ++server)
                cluster.kill_host(server);
            cluster.run_idle(3000);
            const auto call = cluster.workers[0]->create_table(sparse_table("counts"));
            REQUIRE(cluster.run_until([&] { return cluster.workers[0]->done(call); }));
            const auto table = cluster.workers[0]->take_table(call);
            REQUIRE_FALSE(table.has_value());
            INFO(table.error().message());
            CHECK(table.error().message().find("nobody else has them (the job had no tables yet); "
                                               "start the job again") != std::string::npos);
        }
    }

    TEST_CASE("a job with copies goes on without a server that dies at any instant of its start") {
        for (size_t steps = 0; steps < 60; ++steps) {
            CAPTURE(steps);
            SimShape shape;
            shape.servers = 3;
            shape.replicas = 1;
            shape.is_manager_apart = true;
            SimCluster cluster(100 + steps, shape, {});
            REQUIRE(cluster.run_until([&] { return cluster.manager->view().epoch() > 0; }));
            for (size_t i = 0; i < steps; ++i)
                (void)cluster.step();
            cluster.kill_host(1);
            REQUIRE(cluster.start());
            const auto table = cluster.make_table(0, dense_table("weights", kLossKeys));
            REQUIRE(table.has_value());
            REQUIRE(push_every_key(cluster, *table).has_value());
        }
    }

    TEST_CASE("a worker that has not reached a server when that dies goes on without it") {
        for (const bool dies : {true, false}) {
            CAPTURE(dies);
            SimShape shape;
            shape.servers = 3;
            shape.shards = 1;
            shape.replicas = 1;
            shape.is_manager_apart = true;
            SimCluster cluster(17, shape, {});
            const uint32_t worker = cluster.host_of_worker(0);
            cluster.network.partition(cluster.host_of_shard(1), worker);
            REQUIRE(cluster.run_until([&] { return cluster.workers[1]->ready(); }));
            cluster.run_idle(3000);
            REQUIRE_FALSE(cluster.workers[0]->ready());
            REQUIRE_FALSE(cluster.workers[0]->finished());
            if (dies) {
                cluster.kill_host(cluster.host_of_shard(1));
                REQUIRE(cluster.run_until([&] { return cluster.workers[0]->ready(); }));
                REQUIRE(cluster.make_table(0, sparse_table("counts")).has_value());
            } else {
                REQUIRE(cluster.run_until([&] { return cluster.workers[0]->finished(); }));
                INFO(cluster.workers[0]->failure().error().message());
                CHECK(mentions(cluster.workers[0]->failure(), "shard 0 of server 1 (rank"));
            }
        }
    }

    TEST_CASE(
        "calls that need what is lost name the keys and the checkpoint, with copies or without") {
        for (const uint32_t kind : {0U, 1U, 2U, 3U}) {
            const uint32_t replicas = kind / 2;
            const bool has_checkpoint = kind % 2 == 1;
            CAPTURE(replicas);
            CAPTURE(has_checkpoint);
            SimCluster cluster(14, shape_with_checkpoints(replicas), {});
            REQUIRE(cluster.start());
            const auto table = cluster.make_table(0, dense_table("weights", kLossKeys));
            REQUIRE(table.has_value());
            cluster.run_idle(3000);  // the copies are made
            if (has_checkpoint) REQUIRE(has_written_checkpoint(cluster));
            // Of four servers with one copy each, any three have both copies of something.
            for (uint32_t server = 1; server <= (replicas == 0 ? 1U : 3U); ++server)
                cluster.kill_host(server);
            const Status open = push_every_key(cluster, *table);
            const Status later = push_every_key(cluster, *table);
            const Status barrier = cluster.finish(0, cluster.workers[0]->barrier(0));
            for (const Status* const status : {&open, &later, &barrier}) {
                REQUIRE_FALSE(status->has_value());
                INFO(status->error().text());
                CHECK(mentions(*status,
                               "% of the parameters are lost, because nobody else has them; start "
                               "the job again"));
                CHECK(mentions(*status, "; lost: keys "));
                CHECK(status->error().text().ends_with(" of table 'weights'"));
                CHECK(mentions(*status, "again, with `resume` d (checkpoint 1); lost: ") ==
                      has_checkpoint);
            }
        }
    }

    TEST_CASE("a job that goes on from a checkpoint names that one until it has one of its own") {
        for (const bool has_own : {false, true}) {
            CAPTURE(has_own);
            CheckpointFolder folder;
            SimShape shape{.servers = 2, .shards = 1, .workers = 1};
            shape.checkpoints = folder.options();
            const TableSchema weights = dense_table("weights", kLossKeys);
            {
                SimCluster first(15, shape, {});
                REQUIRE(first.start());
                REQUIRE(first.make_table(0, weights).has_value());
                for (int i = 0; i < 2; ++i)
                    REQUIRE(has_written_checkpoint(first));
            }
            folder.resume(shape);
            shape.checkpoints.folder = "e";
            SimCluster cluster(16, shape, {});
            REQUIRE(cluster.start());
            const auto table = cluster.make_table(0, weights);
            REQUIRE(table.has_value());
            if (has_own) REQUIRE(has_written_checkpoint(cluster));
            cluster.kill_host(1);
            const Status push = push_every_key(cluster, *table);
            REQUIRE_FALSE(push.has_value());
            INFO(push.error().text());
            CHECK(mentions(push, has_own ? "again, with `resume` e (checkpoint 1); lost: "
                                         : "again, with `resume` d `resume_number` 2; lost: "));
        }
    }

    TEST_CASE("a barrier waits for all workers, but not for those that are done") {
        SimCluster cluster(3, {}, {});
        REQUIRE(cluster.start());
        const auto first = cluster.workers[0]->barrier(0);
        const auto second = cluster.workers[1]->barrier(0);
        cluster.run_idle(3);
        CHECK_FALSE(cluster.workers[0]->done(first));
        CHECK(cluster.finish(2, cluster.workers[2]->leave({}, 0)).has_value());
        CHECK(cluster.finish(0, first).has_value());
        CHECK(cluster.finish(1, second).has_value());
    }

    TEST_CASE("a worker that comes to a barrier again after its deadline counts once") {
        SimCluster cluster(7, {}, {});
        REQUIRE(cluster.start());
        const auto impatient = cluster.workers[0]->barrier(kMillisecond);
        const Status late = cluster.finish(0, impatient);
        CHECK(late.code() == Errc::kDeadline);
        CHECK(late.error().text() ==
              "not all workers came to the barrier in the time that the call was given; without "
              "one it waits for as long as they compute");
        for (int i = 0; i < 3; ++i) {
            const auto again = cluster.workers[0]->barrier(20 * kMillisecond);
            CHECK(cluster.finish(0, again).code() == Errc::kDeadline);
        }
        const auto last = cluster.workers[0]->barrier(0);
        const auto second = cluster.workers[1]->barrier(0);
        cluster.run_idle(50);
        CHECK_FALSE(cluster.workers[0]->done(last));  // worker 2 is still to come
        CHECK_FALSE(cluster.workers[1]->done(second));
        const auto third = cluster.workers[2]->barrier(0);
        CHECK(cluster.finish(2, third).has_value());
        CHECK(cluster.finish(0, last).has_value());
        CHECK(cluster.finish(1, second).has_value());
    }

    TEST_CASE("a worker whose barrier timed out and that leaves does not stand in for another") {
        SimCluster cluster(10, {}, {});
        REQUIRE(cluster.start());
        const auto impatient = cluster.workers[0]->barrier(kMillisecond);
        CHECK(cluster.finish(0, impatient).code() == Errc::kDeadline);
        CHECK(cluster.finish(0, cluster.workers[0]->leave({}, 0)).has_value());
        const auto second = cluster.workers[1]->barrier(0);
        cluster.run_idle(50);
        CHECK_FALSE(cluster.workers[1]->done(second));  // worker 2 is still to come
        const auto third = cluster.workers[2]->barrier(0);
        CHECK(cluster.finish(1, second).has_value());
        CHECK(cluster.finish(2, third).has_value());
    }

    TEST_CASE(
        "a barrier that timed out is withdrawn: the others wait until its worker tries again") {
        SimCluster cluster(11, {}, {});
        REQUIRE(cluster.start());
        const auto impatient = cluster.workers[0]->barrier(kMillisecond);
        CHECK(cluster.finish(0, impatient).code() == Errc::kDeadline);
        const auto second = cluster.workers[1]->barrier(0);
        const auto third = cluster.workers[2]->barrier(0);
        cluster.run_idle(50);
        CHECK_FALSE(cluster.workers[1]->done(second));
        CHECK_FALSE(cluster.workers[2]->done(third));
        const auto again = cluster.workers[0]->barrier(0);
        CHECK(cluster.finish(0, again).has_value());
        CHECK(cluster.finish(1, second).has_value());
        CHECK(cluster.finish(2, third).has_value());
    }

    TEST_CASE("a worker that leaves while its barrier is open does not stand in for another") {
        SimCluster cluster(12, {}, {});
        REQUIRE(cluster.start());
        const auto open = cluster.workers[0]->barrier(0);
        CHECK(cluster.finish(0, cluster.workers[0]->leave({}, 0)).has_value());
        CHECK(cluster.finish(0, open).code() == Errc::kCancelled);
        const auto second = cluster.workers[1]->barrier(0);
        cluster.run_idle(50);
        CHECK_FALSE(cluster.workers[1]->done(second));
        const auto third = cluster.workers[2]->barrier(0);
        CHECK(cluster.finish(1, second).has_value());
        CHECK(cluster.finish(2, third).has_value());
    }

    TEST_CASE("a second barrier of a worker that waits at one is refused, and the first goes on") {
        SimCluster cluster(13, {}, {});
        REQUIRE(cluster.start());
        const auto first = cluster.workers[0]->barrier(0);
        const auto twice = cluster.workers[0]->barrier(0);
        const Status refused = cluster.finish(0, twice);
        CHECK(refused.code() == Errc::kInvalidArgument);
        CHECK(mentions(refused, "this worker waits at a barrier already"));
        const auto second = cluster.workers[1]->barrier(0);
        const auto third = cluster.workers[2]->barrier(0);
        CHECK(cluster.finish(0, first).has_value());
        CHECK(cluster.finish(1, second).has_value());
        CHECK(cluster.finish(2, third).has_value());
    }

    TEST_CASE("a worker that dies at a barrier fails it for the others, whoever came first") {
        for (const bool dies_first : {true, false}) {
            SimCluster cluster(14, {}, {});
            REQUIRE(cluster.start());
            (void)cluster.workers[2]->barrier(0);
            ClientCore::CallId waiting = 0;
            if (!dies_first) waiting = cluster.workers[0]->barrier(0);
            cluster.run_idle(3);
            cluster.network.kill(cluster.host_of_worker(2));
            cluster.workers[2].reset();
            if (dies_first) {
                cluster.run_idle(200);
                waiting = cluster.workers[0]->barrier(0);
            }
            const Status ended = cluster.finish(0, waiting);
            CHECK(ended.code() == Errc::kPeerLost);
            CHECK(mentions(ended, "worker 2 (rank 2) died"));
        }
    }

    TEST_CASE("a worker that gives up after its barrier timed out is heard of at the shards") {
        for (const bool timed_out : {true, false}) {
            SimCluster cluster(15, {}, {});
            REQUIRE(cluster.start());
            const auto table = cluster.make_table(0, sparse_table("counts"));
            REQUIRE(table.has_value());
            const auto barrier = cluster.workers[1]->barrier(timed_out ? kMillisecond : 0);
            if (timed_out) CHECK(cluster.finish(1, barrier).code() == Errc::kDeadline);
            const std::array<uint64_t, 1> key{1};
            const std::array<float, 1> one{1};
            CallOptions options;
            options.iteration = 1;
            const auto push =
                cluster.workers[0]->push(*table, key, std::as_bytes(std::span(one)), options);
            const Status why = Error(Errc::kInvalidArgument, "no such file");
            CHECK(cluster.finish(1, cluster.workers[1]->leave(why, 0)).has_value());
            const uint64_t before_ns = cluster.clock.now_ns();
            const Status ended = cluster.finish(0, push);
            CHECK(mentions(ended, "worker 1 died or gave up"));
            CHECK(cluster.clock.now_ns() - before_ns < kSecond);
        }
    }

    TEST_CASE("who waits for a worker that gives up reads why, and one that died is named") {
        SimCluster cluster(4, {}, {});
        REQUIRE(cluster.start());
        const auto barrier = cluster.workers[0]->barrier(0);
        const Status why = Error(Errc::kInvalidArgument, "train.svm:3:7: a number was expected");
        REQUIRE(cluster.finish(2, cluster.workers[2]->leave(why, 0)).has_value());
        const Status ended = cluster.finish(0, barrier);
        CHECK(ended.code() == Errc::kPeerLost);
        CHECK(mentions(ended, "worker 2 (rank 2) gave up: train.svm:3:7"));
        cluster.network.kill(cluster.host_of_worker(1));
        cluster.workers[1].reset();
        cluster.run_idle(200);
        const Status next = cluster.finish(0, cluster.workers[0]->barrier(0));
        CHECK(mentions(next, "worker 1 (rank 1) died"));
    }

    TEST_CASE("a signal that stopped one worker is the cause for all, and its code says which") {
        for (const Errc code : {Errc::kInterrupted, Errc::kTerminated}) {
            SimCluster cluster(6, {}, {});
            REQUIRE(cluster.start());
            const auto barrier = cluster.workers[0]->barrier(0);
            const Status why = Error(code, "the training files were being read");
            REQUIRE(cluster.finish(2, cluster.workers[2]->leave(why, 0)).has_value());
            const Status told = cluster.finish(0, barrier);
            CHECK(told.code() == code);
            CHECK(told.error().text() == "the training files were being read");
            REQUIRE(cluster.finish(0, cluster.workers[0]->leave(told, 0)).has_value());
            const Status echo = Error(Errc::kPeerLost, "worker 2 gave up");
            REQUIRE(cluster.finish(1, cluster.workers[1]->leave(echo, 0)).has_value());
            REQUIRE(cluster.run_until([&] { return cluster.shards[3]->finished(); }));
            const Status& outcome = cluster.shards[3]->outcome();
            CHECK(outcome.code() == code);
            CHECK(outcome.error().text() == "the training files were being read");
        }
    }

    TEST_CASE(
        "the job ends when all workers are gone: well if one came to its end, else with why") {
        for (const bool well : {true, false}) {
            SimCluster cluster(5, {}, {});
            REQUIRE(cluster.start());
            const Status why = Error(Errc::kInvalidArgument, "no such file");
            const Status echo = Error(Errc::kPeerLost, "the barrier cannot be reached");
            REQUIRE(cluster.finish(0, cluster.workers[0]->leave(why, 0)).has_value());
            REQUIRE(cluster.finish(1, cluster.workers[1]->leave(echo, 0)).has_value());
            CHECK_FALSE(cluster.shards[0]->finished());
            const Status last = well ? Status() : echo;
            REQUIRE(cluster.finish(2, cluster.workers[2]->leave(last, 0)).has_value());
            REQUIRE(cluster.run_until([&] { return cluster.shards[3]->finished(); }));
            const Status& outcome = cluster.shards[3]->outcome();
            CHECK(outcome.has_value() == well);
            if (!well) {
                CHECK(mentions(outcome, "worker 0 (rank 0) gave up: no such file"));
                CHECK_FALSE(mentions(outcome, "worker 1"));
            }
        }
    }
}

}  // namespace weir::test

// SPDX-License-Identifier: Apache-2.0
/// \file
/// The judge of jobs whose workers take over each other's work (OnWorkerLoss::kReassign), and whose servers
/// have copies: workers and servers die, also at one instant or one soon after the other, workers hang until
/// their leases have ended, join, and give their work back, servers join and leave, and in a third of the
/// histories one of three managers fails, also together with a worker and a server. What must be true: a
/// call that ends with kReassigned has a worker as its reason; every worker comes to a share of the next round, and
/// all shares of a round are the whole work; what a round's table shows is the sum of all its workers' parts of the
/// iterations of which some part was acknowledged, and of some more at most; pushes outside of iterations never
/// fail, and those that were acknowledged are never lost; a checkpoint that is asked for fails only because of
/// servers or managers that fail, come or go meanwhile; and another job that goes on from one finds all that.

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "tests/histories/machinery/reassign/reassign_job.h"
#include "tests/seed.h"

namespace weir::test {
namespace {

SimShape make_shape(Random& random, bool has_managers) {
    SimShape shape;
    shape.replicas = static_cast<uint32_t>(1 + random.below(2));
    shape.servers = shape.replicas + 1 + static_cast<uint32_t>(random.below(2));
    shape.shards = static_cast<uint32_t>(1 + random.below(2));
    shape.points = static_cast<uint32_t>(1 + random.below(4));
    shape.workers = static_cast<uint32_t>(2 + random.below(3));
    shape.on_worker_loss = OnWorkerLoss::kReassign;
    shape.is_manager_apart = true;
    shape.managers = has_managers ? 3 : 1;
    shape.lease_ns = 500 * kMillisecond;
    // The proof that a worker died may be lost with a manager.
    if (has_managers || random.below(4) == 0) shape.work_lease_ns = 5 * kSecond;
    if (random.below(2) == 0) shape.clock_skew = 0.1;
    shape.message_bytes_max = random.below(2) == 0 ? 8192 : 1024;
    shape.eager_bytes = random.below(2) == 0 ? 64 : 4096;
    return shape;
}

transport::sim::Options make_network(Random& random) {
    transport::sim::Options options;
    options.maps_memory = random.below(2) == 0;
    options.delay_ns_max = kMicrosecond * (2 + random.below(100));
    options.loss = random.below(4) == 0 ? 0.01 : 0;
    return options;
}

/// Two jobs, each from the last checkpoint of the one before, and a look at what the last one has left.
void run_history(uint64_t seed, ReassignCounts& counts) {
    Random random(seed);
    CheckpointFolder folder;
    ReassignTables tables(random.below(2) == 0 ? Layout::kDense : Layout::kSparse);
    std::optional<ReassignTables::Bounds> bounds;
    for (int job = 0; job < 3; ++job) {
        SimShape shape = make_shape(random, seed % 3 == 0);
        const transport::sim::Options network = make_network(random);
        if (random.below(2) == 0) shape.disk_ns_max = network.delay_ns_max << random.below(5);
        if (!bounds) {
            shape.checkpoints = folder.options();
        } else {
            folder.resume(shape);
        }
        ReassignJob running(random, shape, network, folder, tables, counts);
        if (bounds) tables.resume(running.cluster(), *shape.resume, *bounds);
        if (job == 2) return;
        running.run();
        bounds = running.bounds();
    }
}

}  // namespace

TEST_SUITE("reassign_history") {
    TEST_CASE("workers go from round to round, and nothing is lost, while servers die with them") {
        const uint64_t first = testing::seed_or(1);
        const uint64_t count = testing::histories_or(15);
        ReassignCounts counts;
        for (uint64_t seed = first; seed < first + count; ++seed) {
            INFO("WEIR_SEED=" << seed);
            run_history(seed, counts);
        }
        MESSAGE(fmt::format(
            "{} rounds were dealt anew, {} calls ended for that; {} workers died, {} of them hung, "
            "{} joined, {} left; {} servers died, {} times with a worker at one instant, {} times "
            "soon after one or before, {} times with the manager, too; {} joined, {} were asked to "
            "leave; {} checkpoints were asked for, {} written, {} though a worker died meanwhile, "
            "{} while copies were made again, {} because servers did nothing meanwhile, {} given "
            "up; {} pulls of iterations",
            counts.rounds, counts.reassigned, counts.workers_died, counts.workers_hung,
            counts.workers_joined, counts.workers_left, counts.servers_killed, counts.died_together,
            counts.died_in_turn, counts.with_managers, counts.servers_joined, counts.servers_left,
            counts.checkpoints, counts.written, counts.written_amid, counts.written_again,
            counts.written_in_calm, counts.given_up, counts.pulls_of_iterations));
        // Histories that no longer reach what they are there for fail.
        CHECK(counts.rounds >= testing::fewest_of(count, 8));
        CHECK(counts.reassigned >= testing::fewest_of(count, 60));
        CHECK(counts.workers_died >= testing::fewest_of(count, 7));
        CHECK(counts.workers_hung >= testing::fewest_of(count, 0.15));
        CHECK(counts.workers_left >= testing::fewest_of(count, 2.2));
        CHECK(counts.servers_killed >= testing::fewest_of(count, 4.5));
        CHECK(counts.died_together >= testing::fewest_of(count, 1.1));
        CHECK(counts.died_in_turn >= testing::fewest_of(count, 0.4));
        CHECK(counts.with_managers >= testing::fewest_of(count, 0.1));
        CHECK(counts.written >= testing::fewest_of(count, 5.8));
        CHECK(counts.written_amid >= testing::fewest_of(count, 1.7));
        CHECK(counts.written_again >= testing::fewest_of(count, 1.1));
        CHECK(counts.written_in_calm >= testing::fewest_of(count, 1.5));
        CHECK(counts.pulls_of_iterations >= testing::fewest_of(count, 150));
    }

    TEST_CASE(
        "a part is answered whose segment closed its iteration elsewhere before all were ended") {
        ReassignCounts counts;
        run_history(200'474, counts);
    }

    TEST_CASE("who leaves withdraws its parts, and the others hear that the work is taken anew") {
        ReassignCounts counts;
        run_history(200'440, counts);
    }
}

}  // namespace weir::test

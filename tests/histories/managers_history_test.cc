// SPDX-License-Identifier: Apache-2.0
/// \file
/// The judge of jobs with three managers: the histories of elastic_history_test.cc and
/// backup_history_test.cc, in which managers die, are stopped, are cut off from each other, also together
/// with a server, as a host is on which both are, and hand over to each other.

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "tests/histories/machinery/elastic_history.h"
#include "tests/seed.h"

namespace weir::test {
namespace {

void run_with_managers(uint32_t replicas, uint64_t count) {
    const uint64_t first = testing::seed_or(1);
    HistoryCounts counts;
    for (uint64_t seed = first; seed < first + count; ++seed) {
        INFO("WEIR_SEED=" << seed);
        (void)ElasticHistory(seed, counts, replicas, nullptr, 3).run();
    }
    MESSAGE(fmt::format(
        "{} managers died, {} were stopped, {} cut off, {} of them with a server, {} were to hand "
        "over; {} servers "
        "killed, {} "
        "silent, {} of them replaced, {} joined, {} asked to leave, "
        "{} joiners died, {} workers joined, {} died, {} views, {} pushes, {} parts, {} "
        "cuts from the managers",
        counts.managers_killed, counts.managers_stopped, counts.managers_cut_off,
        counts.managers_with_servers, counts.handovers, counts.servers_killed, counts.silences,
        counts.replaced, counts.servers_joined, counts.servers_left, counts.joiners_died,
        counts.workers_joined, counts.workers_died, counts.views, counts.pushes, counts.rounds,
        counts.cuts));
    // Histories that no longer reach what they are there for fail.
    CHECK(counts.managers_killed >= testing::fewest_of(count, 0.18));
    CHECK(counts.managers_stopped >= testing::fewest_of(count, 0.28));
    CHECK(counts.managers_cut_off >= testing::fewest_of(count, 0.3));
    CHECK(counts.handovers >= testing::fewest_of(count, 0.9));
    CHECK(counts.servers_joined >= testing::fewest_of(count, 0.4));
    CHECK(counts.servers_left >= testing::fewest_of(count, 1.0));
    if (replicas == 0) return;
    CHECK(counts.servers_killed >= testing::fewest_of(count, 1.1));
    CHECK(counts.silences >= testing::fewest_of(count, 0.34));
    CHECK(counts.replaced >= testing::fewest_of(count, 0.15));
    CHECK(counts.managers_with_servers >= testing::fewest_of(count, 0.03));
}

}  // namespace

TEST_SUITE("managers_history") {
    TEST_CASE("servers and workers come and go while managers fail") {
        run_with_managers(0, testing::histories_or(300) / 2);
    }

    TEST_CASE("servers that hold something die while managers fail") {
        run_with_managers(1, testing::histories_or(400) / 2);
    }

    TEST_CASE("who is elected again while libraft still has its last hand-over leads in the end") {
        HistoryCounts counts;
        (void)ElasticHistory(6'000'730, counts, 0, nullptr, 3).run();
        for (const uint64_t seed : {6'000'600, 6'001'802, 6'002'500})
            (void)ElasticHistory(seed, counts, 1, nullptr, 3).run();
    }

    TEST_CASE("servers die two at a time, while managers fail, if there are two backups") {
        run_with_managers(2, testing::histories_or(120) / 2);
    }
}

}  // namespace weir::test

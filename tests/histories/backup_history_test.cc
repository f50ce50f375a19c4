// SPDX-License-Identifier: Apache-2.0
/// \file
/// The judge of whole jobs with backups: the histories of elastic_history_test.cc, with one backup
/// of each segment, and servers that are killed at any instant, their memory with them: also one that
/// gives or gets a segment, or learns one, in the middle of that. Before the next one dies, each
/// segment has its backup again. In a third of the histories each segment has two backups, and servers
/// die, up to two at a time, as long as some copy of each segment is left. In half of the histories servers and the manager also fall silent,
/// for longer than a lease, and hosts do not reach each other, in one direction or both: servers die
/// also then. Clocks of
/// processes go up to 10 % too fast or too slow. Beside what must be true there: no call fails because
/// of a death; what was acknowledged, or shown by a pull that names an iteration, is never taken
/// back; no segment is lost; nobody but a server that fell silent is replaced, and it ends then; and
/// in the end all copies are equal bit by bit, with rule state, times and closed iterations.

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "tests/histories/machinery/elastic_history.h"
#include "tests/seed.h"

namespace weir::test {

TEST_SUITE("backup_history") {
    TEST_CASE("nothing is lost or done twice when servers die that hold something") {
        const uint64_t first = testing::seed_or(1);
        const uint64_t count = testing::histories_or(200);
        HistoryCounts counts;
        for (uint64_t seed = first; seed < first + count; ++seed) {
            INFO("WEIR_SEED=" << seed);
            (void)ElasticHistory(seed, counts, seed % 3 == 0 ? 2 : 1).run();
        }
        MESSAGE(fmt::format(
            "{} servers killed, {} of them primaries, {} that gave something, {} that got it, {} "
            "that learned, {} whose copy was just reported, {} while another one failed, {} that "
            "did not reach another host; {} that were "
            "silent; {} joiners died, {} servers joined, {} "
            "asked to leave, {} workers "
            "joined, {} left, {} died, {} views, {} pushes, {} calls given up, {} parts, {} "
            "failed, {} "
            "breaks, {} pauses, {} cuts from the manager, {} servers silent, {} of them replaced, "
            "{} "
            "times the manager stopped, {} partings, {} segments with equal copies, {} erasures "
            "and expiries, {} pushes and parts with keys that stayed behind, {} rows of parts that "
            "did, {} pushes through selectors, {} flushes, {} that a part took along",
            counts.servers_killed, counts.killed_primaries, counts.killed_losers,
            counts.killed_gainers, counts.killed_learners, counts.killed_teachers,
            counts.killed_seconds, counts.killed_parted, counts.killed_silent, counts.joiners_died,
            counts.servers_joined, counts.servers_left, counts.workers_joined, counts.workers_left,
            counts.workers_died, counts.views, counts.pushes, counts.given_up, counts.rounds,
            counts.failed_parts, counts.breaks, counts.pauses, counts.cuts, counts.silences,
            counts.replaced, counts.managers_stopped, counts.partings, counts.equal_segments,
            counts.erasures, counts.selected, counts.held_of_rounds, counts.filtered,
            counts.flushes, counts.flushes_of_rounds));
        // Histories that no longer reach what they are there for fail.
        for (const uint64_t reached :
             {counts.servers_killed, counts.killed_primaries, counts.servers_joined,
              counts.workers_joined, counts.workers_left, counts.workers_died, counts.breaks,
              counts.pauses, counts.cuts, counts.partings, counts.equal_segments})
            CHECK(reached >= testing::fewest_of(count, 1.0));
        for (const uint64_t reached :
             {counts.killed_learners, counts.joiners_died, counts.servers_left, counts.given_up,
              counts.failed_parts, counts.silences, counts.replaced, counts.managers_stopped})
            CHECK(reached >= testing::fewest_of(count, 0.28));
        CHECK(counts.killed_seconds >= testing::fewest_of(count, 0.7));
        for (const uint64_t reached : {counts.killed_losers, counts.killed_gainers})
            CHECK(reached >= testing::fewest_of(count, 0.03));
        CHECK(counts.killed_teachers >= testing::fewest_of(count, 0.24));
        CHECK(counts.killed_parted >= testing::fewest_of(count, 0.25));
        CHECK(counts.killed_silent >= testing::fewest_of(count, 0.09));
        CHECK(counts.erasures >= 10 * count);
        CHECK(counts.selected >= 2 * count);
        CHECK(counts.flushes >= testing::fewest_of(count, 0.3));
        CHECK(counts.held_of_rounds >= 2 * count);
        CHECK(counts.flushes_of_rounds >= testing::fewest_of(count, 0.3));
        CHECK(counts.filtered >= 10 * count);
        CHECK(counts.functions >= 10 * count);
        CHECK(counts.reductions >= 3 * count);
        CHECK(counts.held_of_filters >= 2 * count);
        CHECK(counts.pushes >= 10 * count);
        CHECK(counts.rounds >= 10 * count);
    }
}

}  // namespace weir::test

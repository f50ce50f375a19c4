// SPDX-License-Identifier: Apache-2.0
/// \file
/// The judge: histories of whole clusters while servers and workers join and leave, joiners and
/// workers die, connections break and heal, and processes pause or are slow. What must be true of
/// them is in HistoryWorkers. A history is repeated exactly by its seed. A failing one prints the
/// seed and its last events.

#include "tests/histories/machinery/elastic_history.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "tests/seed.h"

namespace weir::test {

TEST_SUITE("elastic_history") {
    TEST_CASE("nothing is lost or done twice while servers and workers come and go") {
        const uint64_t first = testing::seed_or(1);
        const uint64_t count = testing::histories_or(400);
        HistoryCounts counts;
        for (uint64_t seed = first; seed < first + count; ++seed) {
            INFO("WEIR_SEED=" << seed);
            (void)ElasticHistory(seed, counts).run();
        }
        MESSAGE(fmt::format(
            "{} views, {} servers joined, {} asked to leave, {} joiners died, {} workers joined, "
            "{} left, {} of them with open calls, {} died, {} pushes, {} calls given up, {} that "
            "waited for others, {} parts, {} breaks, {} pauses, {} of them of the manager, {} cuts "
            "from the manager, {} erasures and expiries, {} pushes and parts with keys that stayed "
            "behind, {} rows of parts that did, {} pushes through selectors, {} flushes, {} that a "
            "part took along",
            counts.views, counts.servers_joined, counts.servers_left, counts.joiners_died,
            counts.workers_joined, counts.workers_left, counts.left_with_calls, counts.workers_died,
            counts.pushes, counts.given_up, counts.waiting_calls, counts.rounds, counts.breaks,
            counts.pauses, counts.managers_paused, counts.cuts, counts.erasures, counts.selected,
            counts.held_of_rounds, counts.filtered, counts.flushes, counts.flushes_of_rounds));
        // Histories that no longer reach what they are there for fail.
        for (const uint64_t reached :
             {counts.views, counts.servers_joined, counts.servers_left, counts.joiners_died,
              counts.workers_joined, counts.workers_left, counts.workers_died, counts.breaks,
              counts.pauses, counts.cuts, counts.primaries_checked})
            CHECK(reached >= testing::fewest_of(count, 0.55));
        for (const uint64_t reached : {counts.given_up, counts.left_with_calls,
                                       counts.waiting_calls, counts.managers_paused})
            CHECK(reached >= testing::fewest_of(count, 0.15));
        CHECK(counts.narrow_pulls >= count / 4);
        CHECK(counts.push_pulls >= 2 * count);
        CHECK(counts.calls_of_two >= 2 * count);
        CHECK(counts.erasures >= 5 * count);
        CHECK(counts.selected >= 2 * count);
        CHECK(counts.flushes >= testing::fewest_of(count, 0.3));
        CHECK(counts.held_of_rounds >= 2 * count);
        CHECK(counts.flushes_of_rounds >= testing::fewest_of(count, 0.3));
        CHECK(counts.filtered >= 10 * count);
        CHECK(counts.functions >= 5 * count);
        CHECK(counts.reductions >= 3 * count);
        CHECK(counts.held_of_filters >= 2 * count);
        CHECK(counts.pushes >= 10 * count);
        CHECK(counts.rounds >= 10 * count);
    }

    TEST_CASE("a history is repeated exactly by its seed, also by another process") {
        constexpr const char* kSaysThem = "WEIR_TEST_SAYS_HISTORIES";
        const uint64_t first = testing::seed_or(1);
        HistoryCounts counts;
        std::string histories;
        for (uint64_t seed = first; seed < first + 20; ++seed)
            histories += ElasticHistory(seed, counts).run();
        if (std::getenv(kSaysThem) != nullptr) {  // NOLINT(concurrency-mt-unsafe)
            std::fputs(histories.c_str(), stdout);
            return;
        }
        INFO("WEIR_SEED=" << first);
        std::string again;
        for (uint64_t seed = first; seed < first + 20; ++seed)
            again += ElasticHistory(seed, counts).run();
        CHECK(again == histories);
        const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
        const std::string command =
            fmt::format("{}=1 WEIR_SEED={} '{}' -ts=elastic_history -tc='a history is repeated*'",
                        kSaysThem, first, self);
        std::FILE* const other = popen(command.c_str(), "r");  // NOLINT(cert-env33-c)
        REQUIRE(other != nullptr);
        std::string heard;
        std::array<char, 4096> block{};
        for (size_t n = 0; (n = std::fread(block.data(), 1, block.size(), other)) > 0;)
            heard.append(block.data(), n);
        CHECK(pclose(other) == 0);
        CHECK(heard.find(histories) != std::string::npos);
    }
}

}  // namespace weir::test

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Random histories of replicas, of which a minority ends for good, and a fault planted in them, which they find.

#include <cstdint>
#include <functional>
#include <string>

#include <doctest/doctest.h>

#include "tests/consensus/log_history.h"
#include "tests/seed.h"

namespace weir::testing {
namespace {

/// Runs histories of the seeds from `seed` on.
void check_histories(uint64_t count, const std::function<LogGroupOptions(uint64_t seed)>& options) {
    const uint64_t first = seed_or(1);
    uint64_t applied = 0;
    uint64_t handovers = 0;
    for (uint64_t seed = first; seed < first + count; ++seed) {
        INFO("run again with WEIR_SEED=" << seed << " WEIR_HISTORIES=1");
        LogHistory history(options(seed));
        const std::vector<std::string> faults = history.run();
        for (const std::string& fault : faults)
            FAIL_CHECK(fault);
        REQUIRE(faults.empty());
        applied += history.group().facts.applied.size();
        handovers += history.handovers;
    }
    CHECK(applied > 20 * count);
    CHECK(handovers > count / 2);
}

/// How many histories it takes to find what is planted; 0: more than `limit`.
uint64_t find(uint64_t limit, const std::function<LogGroupOptions(uint64_t seed)>& options) {
    const uint64_t first = seed_or(1);
    for (uint64_t seed = first; seed < first + limit; ++seed) {
        LogHistory history(options(seed));
        const std::vector<std::string> faults = history.run();
        if (faults.empty()) continue;
        MESSAGE("found by history " << seed - first + 1 << ": " << faults.front());
        return seed - first + 1;
    }
    return 0;
}

LogGroupOptions small_snapshots(uint64_t seed) {
    LogGroupOptions options{.seed = seed};
    options.entries_per_snapshot = 1 + static_cast<uint32_t>(seed % 40);
    options.entries_kept = 1 + static_cast<uint32_t>(seed % 7);
    return options;
}

}  // namespace

TEST_SUITE("log_histories" * doctest::skip(!consensus::have_replicated_log())) {
    TEST_CASE("three replicas lose nothing and never differ, whatever happens") {
        check_histories(histories_or(300), small_snapshots);
    }

    TEST_CASE("so do five") {
        check_histories(histories_or(100), [](uint64_t seed) {
            LogGroupOptions options = small_snapshots(seed);
            options.replicas = 5;
            return options;
        });
    }

    TEST_CASE("so do replicas on a network that loses packets and breaks connections") {
        check_histories(histories_or(100), [](uint64_t seed) {
            LogGroupOptions options = small_snapshots(seed);
            options.network.loss = 0.3;
            options.network.tries_max = 3;
            options.network.delay_ns_max = 5 * kMillisecond;
            return options;
        });
    }

    TEST_CASE("replicas that lose their memory and keep their numbers are found") {
        CHECK(find(1000, [](uint64_t seed) {
                  LogGroupOptions options{.seed = seed};
                  options.memory_comes_back = true;
                  return options;
              }) > 0);
    }
}

}  // namespace weir::testing

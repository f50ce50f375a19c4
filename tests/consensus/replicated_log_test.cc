// SPDX-License-Identifier: Apache-2.0
/// \file
/// Three replicas of a log: elections, commits, ends and returns.

#include "lib/consensus/replicated_log.h"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/consensus/log_group.h"
#include "tests/seed.h"

namespace weir::testing {
namespace {

constexpr uint64_t kLimitNs = 5 * kSecond;

/// Waits for a leader, and proposes `count` entries there. Its number.
uint64_t lead_and_propose(LogGroup& group, uint64_t count) {
    REQUIRE(group.run_until(kLimitNs, [&] { return group.leader() != nullptr; }));
    LogGroup::Replica& leader = *group.leader();
    REQUIRE(group.propose(leader, count));
    const uint64_t wanted = leader.ledger->acknowledged + count;
    REQUIRE(group.run_until(kLimitNs, [&] { return leader.ledger->acknowledged >= wanted; }));
    return leader.id;
}

void check_all_agree(LogGroup& group, uint64_t count) {
    const bool agree = group.run_until(kLimitNs, [&] { return group.agree(); });
    CHECK(agree);
    CHECK(group.facts.applied.size() == count);
    for (const std::string& fault : group.facts.faults)
        FAIL_CHECK(fault);
}

}  // namespace

TEST_SUITE("replicated_log" * doctest::skip(!consensus::have_replicated_log())) {
    TEST_CASE("three replicas elect a leader, and all apply what it proposes, in its order") {
        WEIR_TEST_SEED(seed, 1);
        LogGroup group({.seed = seed});
        (void)lead_and_propose(group, 100);
        check_all_agree(group, 100);
        uint64_t value = 0;
        for (const auto& [index, entry] : group.facts.applied)
            CHECK(entry == ++value);
    }

    TEST_CASE("a new leader is there within a second after the leader's end") {
        std::vector<uint64_t> took_ms;
        for (uint64_t seed = seed_or(1), last = seed + histories_or(200); seed < last; ++seed) {
            INFO("run again with WEIR_SEED=" << seed);
            LogGroup group({.seed = seed});
            const uint64_t first = lead_and_propose(group, 10);
            group.kill(group.at(first));
            const uint64_t since_ns = group.now_ns();
            REQUIRE(group.run_until(kLimitNs, [&] { return group.leader() != nullptr; }));
            took_ms.push_back((group.now_ns() - since_ns) / kMillisecond);
            CHECK(lead_and_propose(group, 10) != first);
            group.start(group.at(first));
            REQUIRE(LogGroup::fault_of_start(group.at(first)) == "");
            check_all_agree(group, 20);
        }
        std::ranges::sort(took_ms);
        MESSAGE("half of them took at most " << took_ms[took_ms.size() / 2] << " ms, 99 % at most "
                                             << took_ms[took_ms.size() * 99 / 100]
                                             << " ms, and the longest " << took_ms.back());
        CHECK(took_ms.back() < 1000);
    }
}

}  // namespace weir::testing

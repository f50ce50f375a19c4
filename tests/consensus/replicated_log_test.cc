// SPDX-License-Identifier: Apache-2.0
/// \file
/// Three replicas of a log: elections, commits, ends, and members that were away.

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
            check_all_agree(group, 20);
        }
        std::ranges::sort(took_ms);
        MESSAGE("half of them took at most " << took_ms[took_ms.size() / 2] << " ms, 99 % at most "
                                             << took_ms[took_ms.size() * 99 / 100]
                                             << " ms, and the longest " << took_ms.back());
        CHECK(took_ms.back() < 1000);
    }

    TEST_CASE("a leader that is cut off stops, another one leads, and it follows when it is back") {
        LogGroup group({.seed = seed_or(5)});
        const uint64_t first = lead_and_propose(group, 10);
        for (uint64_t other = 1; other <= 3; ++other)
            if (other != first) group.partition(first, other);
        REQUIRE(group.propose(group.at(first), 7));  // their fate is not known
        group.run(kSecond);
        CHECK_FALSE(group.at(first).ledger->is_leader);
        CHECK(lead_and_propose(group, 10) != first);
        group.heal_all();
        check_all_agree(group, 20);
        CHECK(group.at(first).ledger->entries == group.facts.applied);
    }

    TEST_CASE("a leader whose answers are lost in one direction stops, whichever it is") {
        for (const bool hears : {true, false}) {
            LogGroup group({.seed = seed_or(6)});
            const uint64_t first = lead_and_propose(group, 10);
            for (uint64_t other = 1; other <= 3; ++other) {
                if (other == first) continue;
                group.set_way(hears ? first : other, hears ? other : first, Way::kLosing);
            }
            REQUIRE(group.run_until(2 * kSecond, [&] {
                return group.leader() != nullptr && group.leader()->id != first;
            }));
            (void)lead_and_propose(group, 10);
            group.heal_all();
            check_all_agree(group, 20);
        }
    }

    TEST_CASE("a replica that one other cannot reach does not disturb the leader") {
        LogGroup group({.seed = seed_or(7)});
        const uint64_t leader = lead_and_propose(group, 10);
        const uint64_t term = group.at(leader).log->leadership().term;
        group.partition(leader % 3 + 1, (leader + 1) % 3 + 1);
        group.run(2 * kSecond);
        CHECK(lead_and_propose(group, 10) == leader);
        CHECK(group.at(leader).log->leadership().term == term);
        check_all_agree(group, 20);
    }

    TEST_CASE("a leader that was paused acts on nothing when it wakes") {
        LogGroup group({.seed = seed_or(8)});
        const uint64_t first = lead_and_propose(group, 10);
        LogGroup::Replica& paused = group.at(first);
        const uint64_t acknowledged = paused.ledger->acknowledged;
        group.pause(paused, 2 * kSecond);
        REQUIRE(group.run_until(kSecond, [&] { return group.leader()->id != first; }));
        (void)lead_and_propose(group, 10);
        REQUIRE(paused.ledger->is_leader);  // it believes so
        REQUIRE(group.propose(paused, 3));  // and is told otherwise before it has an answer
        group.run(3 * kSecond);
        CHECK(paused.ledger->acknowledged == acknowledged);
        CHECK_FALSE(paused.ledger->is_leader);
        check_all_agree(group, 20);
    }

    TEST_CASE("a leader hands over to the replica that it names, with all that was committed") {
        for (uint64_t seed = seed_or(1), last = seed + histories_or(50); seed < last; ++seed) {
            INFO("run again with WEIR_SEED=" << seed << " WEIR_HISTORIES=1");
            LogGroup group({.seed = seed});
            LogGroup::Replica& first = group.at(lead_and_propose(group, 10));
            const uint64_t term = first.log->leadership().term;
            LogGroup::Replica& next = group.at(first.id % 3 + 1);
            REQUIRE(first.log->hand_over(next.id));
            CHECK(first.log->is_handing_over());
            CHECK_FALSE(first.log->hand_over(next.id));
            // No election has to wait for anybody's silence.
            REQUIRE(group.run_until(100 * kMillisecond, [&] { return group.leader() == &next; }));
            CHECK(next.log->leadership().term == term + 1);
            CHECK_FALSE(first.ledger->is_leader);
            CHECK(lead_and_propose(group, 10) == next.id);
            check_all_agree(group, 20);
            CHECK_FALSE(first.log->is_handing_over());
        }
    }

    TEST_CASE("a replica that lacks entries is named to lead once it has them") {
        LogGroup group({.seed = seed_or(21)});
        LogGroup::Replica& first = group.at(lead_and_propose(group, 10));
        LogGroup::Replica& next = group.at(first.id % 3 + 1);
        group.set_way(first.id, next.id, Way::kHolding);
        (void)lead_and_propose(group, 10);  // the third one has stored them
        REQUIRE(first.log->hand_over(next.id));
        group.heal_all();
        REQUIRE(group.run_until(kSecond, [&] { return group.leader() == &next; }));
        check_all_agree(group, 20);
    }

    TEST_CASE("a leader goes on if the one that it has named cannot take over") {
        LogGroup group({.seed = seed_or(22)});
        LogGroup::Replica& first = group.at(lead_and_propose(group, 10));
        const uint64_t term = first.log->leadership().term;
        CHECK_FALSE(first.log->hand_over(first.id));
        CHECK_FALSE(first.log->hand_over(9));
        LogGroup::Replica& away = group.at(first.id % 3 + 1);
        CHECK_FALSE(away.log->hand_over(first.id));  // it does not lead
        group.kill(away);
        REQUIRE(group.propose(first, 5));
        REQUIRE(first.log->hand_over(away.id));
        REQUIRE(group.propose(first, 5));  // they wait
        REQUIRE(group.run_until(kSecond, [&] { return !first.log->is_handing_over(); }));
        REQUIRE(group.run_until(kSecond, [&] { return first.ledger->acknowledged == 20; }));
        (void)lead_and_propose(group, 10);
        CHECK(group.leader() == &first);
        CHECK(first.log->leadership().term == term);
        check_all_agree(group, 30);
    }

    TEST_CASE("messages that were held back for long do no harm") {
        LogGroup group({.seed = seed_or(9)});
        const uint64_t first = lead_and_propose(group, 10);
        for (uint64_t other = 1; other <= 3; ++other)
            if (other != first) group.set_way(first, other, Way::kHolding);
        REQUIRE(group.propose(group.at(first), 20));
        REQUIRE(group.run_until(
            2 * kSecond, [&] { return group.leader() != nullptr && group.leader()->id != first; }));
        (void)lead_and_propose(group, 10);
        group.heal_all();
        check_all_agree(group, 20);
    }

    TEST_CASE("a leader knows of which replicas it has heard, and of which not for a second") {
        LogGroup group({.seed = seed_or(23)});
        LogGroup::Replica& leader = group.at(lead_and_propose(group, 1));
        group.run(kSecond);
        CHECK(leader.log->heard_count() == 3);
        LogGroup::Replica& away = group.at(leader.id % 3 + 1);
        group.kill(away);
        group.run(ReplicatedLog::kHeardNs + kMillisecond);
        CHECK(leader.log->heard_count() == 2);
        group.run(5 * kSecond);  // nothing is proposed
        CHECK(leader.log->heard_count() == 2);
        group.partition(leader.id, (leader.id + 1) % 3 + 1);
        group.run(ReplicatedLog::kHeardNs + kMillisecond);
        CHECK(leader.log->heard_count() == 1);
    }

    TEST_CASE("who was away gets a snapshot and the entries behind it") {
        LogGroup group({.seed = seed_or(11), .entries_per_snapshot = 20, .entries_kept = 5});
        const uint64_t leader = lead_and_propose(group, 10);
        LogGroup::Replica& away = group.at(leader % 3 + 1);
        group.cut_off(away);
        for (int i = 0; i < 20; ++i)
            (void)lead_and_propose(group, 10);
        CHECK(group.at(leader).ledger->snapshots > 0);
        group.heal_all();
        check_all_agree(group, 210);
        CHECK(away.ledger->restores == 1);
    }

    TEST_CASE("who was away when another began to lead gets entries as long as they are kept") {
        LogGroup group({.seed = seed_or(19), .entries_per_snapshot = 20, .entries_kept = 200});
        LogGroup::Replica& first = group.at(lead_and_propose(group, 10));
        check_all_agree(group, 10);
        LogGroup::Replica& heir = group.at(first.id % 3 + 1);
        LogGroup::Replica& away = group.at(heir.id % 3 + 1);
        group.cut_off(away);
        (void)lead_and_propose(group, 40);
        REQUIRE(first.log->hand_over(heir.id));
        REQUIRE(group.run_until(kSecond, [&] { return group.leader() == &heir; }));
        (void)lead_and_propose(group, 10);
        CHECK(heir.ledger->snapshots > 0);
        group.heal_all();
        check_all_agree(group, 60);
        CHECK(away.ledger->restores == 0);
    }

    TEST_CASE("who cannot take a snapshot ends and says why; the others go on") {
        LogGroup group({.seed = seed_or(18), .entries_per_snapshot = 20, .entries_kept = 5});
        const uint64_t leader = lead_and_propose(group, 10);
        LogGroup::Replica& away = group.at(leader % 3 + 1);
        group.partition(away.id, leader);
        group.partition(away.id, (leader + 1) % 3 + 1);
        for (int i = 0; i < 20; ++i)
            (void)lead_and_propose(group, 10);
        away.ledger->refuses = true;
        group.heal_all();
        REQUIRE(group.run_until(2 * kSecond, [&] { return away.log->finished(); }));
        CHECK(away.log->outcome().error().text().find("takes no snapshot") != std::string::npos);
        CHECK(away.ledger->restores == 0);
        CHECK(group.at(lead_and_propose(group, 10)).ledger->entries.size() >= 210);
    }

    TEST_CASE("one replica alone leads at once") {
        LogGroup group({.seed = seed_or(13), .replicas = 1});
        (void)lead_and_propose(group, 10);
        check_all_agree(group, 10);
        CHECK_FALSE(group.at(1).log->hand_over(1));
    }
}

}  // namespace weir::testing

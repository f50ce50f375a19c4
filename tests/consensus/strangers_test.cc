// SPDX-License-Identifier: Apache-2.0
/// \file
/// A replica refuses what no replica says, closes the connection, and goes on.

#include <array>
#include <utility>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/consensus/peers.h"
#include "tests/consensus/false_member.h"
#include "tests/node/fake_endpoint.h"
#include "tests/seed.h"

namespace weir::testing {
namespace {

using namespace consensus;

const Entry kCommand{1, EntryKind::kCommand, std::vector<std::byte>(8)};

/// The replica leads after this, with the vote of 2.
uint64_t let_it_lead(FalseMember& members) {
    members.connect(2);
    for (int i = 0; i < 1000 && members.heard<Append>() == nullptr; ++i) {
        members.run(5 * kMillisecond);
        if (const auto* const ask = members.heard<AskVote>())
            members.send(Vote{ask->term, true, ask->is_trial, 1});
    }
    REQUIRE(members.heard<Append>() != nullptr);
    CHECK_FALSE(members.is_closed);
    return members.heard<Append>()->term;
}

/// A message of some kind, with numbers near those that mean something.
Message random_message(Random& random, uint64_t term) {
    const auto near_by = [&](uint64_t value) {
        return value + random.below(4) - std::min(value, random.below(3));
    };
    const uint64_t its = std::max<uint64_t>(1, near_by(term));
    const uint64_t index = random.below(20);
    const uint64_t index_term = index == 0 ? 0 : 1 + random.below(its);
    switch (random.below(6)) {
        case 0: {
            const uint64_t asks = random.below(3);
            return AskVote{its, index, index_term, asks == 0, asks == 1};
        }
        case 1: return Vote{its, random.below(2) == 0, random.below(2) == 0, 1 + random.below(9)};
        case 2: {
            Append append{its, index, index_term, random.below(25), {}};
            for (uint64_t count = random.below(6); count > 0; --count) {
                Entry entry = kCommand;
                entry.term = its;
                if (index == 0 && append.entries.empty()) entry.kind = EntryKind::kMembers;
                append.entries.push_back(entry);
            }
            return append;
        }
        case 3: return Appended{its, random.below(20), random.below(30)};
        case 4: return Install{its, {1 + random.below(30), 1 + random.below(its), {}}};
        default: return TakeOver{its, index, index_term};
    }
}

}  // namespace

TEST_SUITE("strangers" * doctest::skip(!have_replicated_log())) {
    TEST_CASE("who is no member, or has lost its memory and with it its number, is refused") {
        FalseMember members(seed_or(1));
        const std::array greetings{Greeting{FalseMember::kGroup, 9, 1}, Greeting{78, 2, 1},
                                   Greeting{FalseMember::kGroup, 2, 3},
                                   Greeting{FalseMember::kGroup, 1, 1},
                                   Greeting{FalseMember::kGroup, 0, 1}};
        for (const Greeting& greeting : greetings) {
            members.connect(2, greeting);
            members.run(5 * kMillisecond);
            CHECK(members.is_closed);
        }
        members.connect(2);
        members.run(5 * kMillisecond);
        CHECK_FALSE(members.is_closed);
    }

    TEST_CASE("a second connection of a member takes the place of the first") {
        FalseMember members(seed_or(1));
        members.connect(2);
        const uint64_t term = let_it_lead(members);
        members.send(AskVote{term, 0, 0, false});
        REQUIRE(members.heard<Vote>() != nullptr);
        CHECK_FALSE(members.heard<Vote>()->is_granted);
        CHECK(members.heard<Vote>()->term == term);
    }

    TEST_CASE("a member whose process has ended, proved, is not connected to any more") {
        ManualClock clock;
        auto owned = std::make_unique<FakeEndpoint>();
        FakeEndpoint& endpoint = *owned;
        endpoint.is_unreachable = true;
        bool has_ended = false;
        consensus::Peers peers(std::move(owned), clock, 7, 1, {{1, "a"}, {2, "b"}},
                               [&](size_t member) { return member == 1 && has_ended; });
        const auto tries_in_a_second = [&] {
            const size_t before = endpoint.connects;
            for (int i = 0; i < 100; ++i) {
                clock.advance(10 * kMillisecond);
                (void)peers.poll({});
            }
            return endpoint.connects - before;
        };
        CHECK(tries_in_a_second() > 8);
        has_ended = true;
        CHECK(tries_in_a_second() == 0);
    }

    TEST_CASE("what is no message, or that of no replica, closes the connection") {
        FalseMember members(seed_or(1));
        const uint64_t term = let_it_lead(members);
        const std::vector<std::vector<std::byte>> messages{
            {},
            std::vector<std::byte>(10),
            encode_message(Append{term, 1, 1, 1, {}}),      // a second leader of its term
            encode_message(Install{term, {5, term, {}}}),   // the same
            encode_message(Append{term + 1, 1, 2, 1, {}}),  // the first entry is of term 1
            encode_message(AskVote{kNumberMax, 1, 1, false}),
        };
        for (const std::vector<std::byte>& message : messages) {
            members.connect(2);
            members.send(message);
            members.run(5 * kMillisecond);
            CHECK(members.is_closed);
            CHECK_FALSE(members.log->finished());
        }
        CHECK(members.log->leadership().leader == 1);
    }

    TEST_CASE("whatever members say, the process goes on") {
        for (uint64_t seed = seed_or(1), last = seed + histories_or(100); seed < last; ++seed) {
            INFO("run again with WEIR_SEED=" << seed << " WEIR_HISTORIES=1");
            Random random(seed);
            FalseMember members(seed);
            uint64_t term = random.below(2) == 0 ? 1 : let_it_lead(members);
            members.connect(2);
            for (int i = 0; i < 100; ++i) {
                if (members.is_closed || random.below(10) == 0)
                    members.connect(2 + random.below(2));
                members.send(random_message(random, term));
                if (random.below(5) == 0) members.run(kMillisecond * random.below(200));
                term = std::max(term, members.log->leadership().term);
            }
        }
    }
}

}  // namespace weir::testing

// SPDX-License-Identifier: Apache-2.0
/// \file
/// What Membership says of servers that learn segments: how many are to come, and have come.

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "lib/manager/members/membership.h"
#include "tests/manager/membership_job.h"

namespace weir::test {
namespace {

using testing::membership_server;
using testing::membership_view;

/// Servers of one shard each; shard and server have the same number.
Membership job_of(uint32_t servers, uint32_t backups) {
    Membership job(membership_view(servers, 1, 1), MembershipOptions{.backup_count = backups});
    job.add_table(1);
    (void)job.decide();
    return job;
}

std::vector<ViewSegment> learned_by(const Membership& job, uint32_t shard) {
    std::vector<ViewSegment> segments;
    std::ranges::copy_if(job.view().segments(), std::back_inserter(segments),
                         [&](const ViewSegment& s) { return s.learner.shard == shard; });
    return segments;
}

void complete(Membership& job, const ViewSegment& segment) {
    const ViewLearner& learner = segment.learner;
    REQUIRE(job.learner_complete(learner.shard, {segment.first, learner.shard, learner.named}));
}

void stop_losers(Membership& job) {
    const std::set<uint32_t> losers = job.losers();
    for (const uint32_t loser : losers)
        REQUIRE(job.stopped(loser, job.view().epoch()));
}

uint32_t sources_of(const std::vector<ViewSegment>& segments) {
    std::set<uint32_t> primaries;
    for (const ViewSegment& segment : segments)
        primaries.insert(segment.primary);
    return static_cast<uint32_t>(primaries.size());
}

/// Of a server that learns copies only, of which some have been taken.
LearningProgress copies_of(const Membership& job, uint32_t server, uint64_t taken, uint64_t since) {
    const std::vector<ViewSegment> rest = learned_by(job, server);
    return {.copies = static_cast<uint32_t>(rest.size()),
            .sources = sources_of(rest),
            .taken = static_cast<uint32_t>(taken),
            .since = since};
}

}  // namespace

TEST_SUITE("learning_rounds") {
    TEST_CASE("copies come one by one, and each of several learners is counted by itself") {
        Membership job = job_of(3, 1);
        const uint64_t since = job.view().epoch();
        std::map<uint32_t, size_t> totals;
        for (const uint32_t server : {0, 1, 2}) {
            totals[server] = learned_by(job, server).size();
            REQUIRE(totals[server] > 1);
            CHECK(job.learning().at(server) == copies_of(job, server, 0, since));
        }
        for (size_t come = 1; come < totals[0]; ++come) {
            complete(job, learned_by(job, 0).back());
            (void)job.decide();
            const std::map<uint32_t, LearningProgress> now = job.learning();
            CHECK(now.at(0) == copies_of(job, 0, come, since));
            CHECK(now.at(0).to_come() + now.at(0).come() == totals[0]);
            CHECK(now.at(1) == copies_of(job, 1, 0, since));
            CHECK(now.at(2) == copies_of(job, 2, 0, since));
        }
        complete(job, learned_by(job, 0).back());
        (void)job.decide();
        CHECK_FALSE(job.learning().contains(0));
        CHECK(job.learning().at(1) == copies_of(job, 1, 0, since));
    }

    TEST_CASE("a server that joins waits with what has come until all of it has, and has moves") {
        Membership job = job_of(2, 0);
        CHECK(job.learning().empty());
        REQUIRE(job.join_server(8, membership_server(2, 1)));
        (void)job.decide();
        const uint64_t since = job.view().epoch();
        const std::vector<ViewSegment> all = learned_by(job, 2);
        const auto count = static_cast<uint32_t>(all.size());
        REQUIRE(count > 2);
        CHECK(job.learning().size() == 1);
        CHECK(job.learning().at(2) ==
              LearningProgress{.moves = count, .sources = 2, .since = since});
        complete(job, all[0]);
        complete(job, all[0]);  // repeated
        complete(job, all[1]);
        (void)job.decide();
        const LearningProgress some = job.learning().at(2);
        CHECK(some.waiting == 2);
        CHECK(some.moves == count - 2);
        CHECK(some.taken == 0);
        (void)job.hold_moves(true);  // as while a checkpoint is written
        for (const ViewSegment& segment : all)
            complete(job, segment);
        (void)job.decide();
        CHECK(job.learning().at(2) == LearningProgress{.waiting = count, .since = since});
        (void)job.hold_moves(false);
        (void)job.decide();
        CHECK(job.learning().empty());
        stop_losers(job);
        (void)job.decide();
        CHECK(job.view().segments_of(2).size() == count);
    }

    TEST_CASE(
        "the round of a learner ends with its death, and who learns in its place begins one") {
        Membership job = job_of(3, 1);
        const uint64_t since = job.view().epoch();
        complete(job, learned_by(job, 1).front());
        complete(job, learned_by(job, 1).back());
        complete(job, learned_by(job, 2).back());
        (void)job.decide();
        REQUIRE(job.learning().at(1).taken == 2);
        REQUIRE(job.learning().at(2).taken == 1);
        job.server_died(1);
        (void)job.decide();
        CHECK_FALSE(job.learning().contains(1));
        for (const auto& [server, is] : job.learning()) {
            CHECK(is.is_sound(job.view().epoch()));
            CHECK(is.to_come() == learned_by(job, server).size());
            CHECK(is.since >= since);
        }
        // All that was lost is learned by those that are left, and the rounds end.
        for (int i = 0; i < 1000 && !job.learning().empty(); ++i) {
            const uint32_t server = job.learning().begin()->first;
            complete(job, learned_by(job, server).front());
            (void)job.decide();
            stop_losers(job);
            (void)job.decide();
        }
        CHECK(job.learning().empty());
        CHECK(job.is_at_rest());
        const uint64_t epoch = job.view().epoch();
        REQUIRE(job.join_server(8, membership_server(3, 1)));
        (void)job.decide();
        REQUIRE(job.learning().contains(3));
        CHECK(job.learning().at(3).since > epoch);
        CHECK(job.learning().at(3).come() == 0);
    }

    TEST_CASE("what a learner has got and lost again has not come") {
        Membership job = job_of(3, 0);
        REQUIRE(job.leave_server(1));
        REQUIRE(job.leave_server(2));
        (void)job.decide();
        const std::vector<ViewSegment> all = learned_by(job, 0);
        const auto from = [&](uint32_t loser) {
            return std::ranges::count(all, loser, &ViewSegment::primary);
        };
        REQUIRE(from(2) > 1);
        REQUIRE(from(1) > 0);
        complete(job, *std::ranges::find(all, 2U, &ViewSegment::primary));
        (void)job.decide();
        REQUIRE(job.losers() == std::set<uint32_t>{2});
        CHECK(job.learning().at(0).taken == 1);
        CHECK(job.learning().at(0).sources == 2);
        const uint64_t since = job.learning().at(0).since;
        job.server_died(2);  // before it has handed over
        (void)job.decide();
        CHECK(job.learning().at(0) == LearningProgress{.moves = static_cast<uint32_t>(from(1)),
                                                       .sources = 1,
                                                       .since = since});
    }

    TEST_CASE("a segment that is named anew is to come again") {
        Membership job = job_of(3, 1);
        const ViewSegment segment = learned_by(job, 0).front();
        (void)job.hold_moves(true);
        complete(job, segment);
        (void)job.decide();
        const LearningProgress before = job.learning().at(0);
        CHECK(before.waiting == 1);
        // A join makes a view, and voids nothing of that.
        REQUIRE(job.join_server(8, membership_server(3, 1)));
        (void)job.decide();
        CHECK(job.learning().at(0) == before);
        job.server_died(segment.primary);
        (void)job.decide();
        REQUIRE(job.view().segments()[job.view().segment_index(segment.first)].primary == kNoShard);
        const auto now = job.learning();
        if (now.contains(0)) CHECK(now.at(0).waiting == 0);
    }
}

}  // namespace weir::test

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/ring/plan.h"
#include "tests/ring/moving_job.h"
#include "tests/seed.h"

TEST_SUITE("plan: large jobs and backups") {
    using namespace weir;
    using weir::testing::MovingJob;
    using weir::testing::new_server;
    using weir::testing::new_servers;

    TEST_CASE("a plan for 1,000 servers of 8 shards takes less than a second") {
        double least_seconds = 1e9;
        for (int run = 0; run < 3; ++run) {
            MovingJob job(new_servers(1000, 8), points_for(8000), 0, 1);
            job.join(new_server(5000, 8));
            job.begin();
            job.settle();
            job.leave(300);
            job.begin();
            least_seconds = std::min(least_seconds, job.plan_seconds_max());
        }
        CHECK(least_seconds < 1);
    }

    TEST_CASE("large jobs: one join and one leave move the least, and print the time of a plan") {
        for (const auto& [servers, shards] : {std::pair{100U, 8U}, {1000U, 8U}, {1000U, 1U}}) {
            MovingJob job(new_servers(servers, shards), points_for(servers * shards), 0, 1);
            job.join(new_server(5000, shards));
            job.begin();
            const double joined = job.last_plan().moved * (servers + 1) / 0.95;
            const size_t joined_learners = job.last_plan().learners.size();
            job.settle();
            CHECK(job.unevenness() <= 0.05);
            CHECK(joined >= 1);
            CHECK(joined <= 1.1);
            job.leave(servers / 3);
            job.begin();
            const double left = job.last_plan().moved * servers;
            const size_t left_learners = job.last_plan().learners.size();
            job.settle();
            CHECK(job.unevenness() <= 0.05);
            CHECK(left <= 1.1);
            MESSAGE(servers << " servers x " << shards << " shards: a join moves " << joined
                            << " of the least in " << joined_learners << " segments, a leave "
                            << left << " in " << left_learners << "; longest plan "
                            << job.plan_seconds_max() * 1e3 << " ms");
        }
    }

    TEST_CASE("at the limit of segments whole ones move, and leavers still hand over all") {
        WEIR_TEST_SEED(seed, 61);
        Random random(seed);
        MovingJob job(new_servers(1024, 8), 8, 0, seed);  // 65,536 segments: no more fit
        for (int step = 0; step < 6; ++step) {
            if (step % 2 == 0) {
                job.join(new_server(step, 8));
            } else {
                job.leave_any();
            }
            job.begin();
            CHECK(job.last_plan().cuts.empty());
            CHECK(job.last_plan().share_max <= 1.3);
            CHECK(job.last_plan().share_min >= 0.7);
            job.settle();
            CHECK(job.unevenness() <= 0.3);
        }
        CHECK(job.view().segments().size() == ViewLimits::kSegmentsMax);
    }

    /// Every segment has its copies, on different hosts if there are enough, in few sets.
    static void check_backups(const View& view, uint32_t backup_count, bool on_other_hosts,
                              size_t partners_max) {
        std::map<uint32_t, std::set<uint32_t>> partners;
        for (const ViewSegment& segment : view.segments()) {
            REQUIRE(segment.backup_count() == backup_count);
            REQUIRE_FALSE(segment.has_learner());
            std::set<uint64_t> hosts{view.server(view.shard(segment.primary)->server)->host};
            for (size_t i = 0; i < backup_count; ++i) {
                partners[segment.primary].insert(segment.backups[i]);
                hosts.insert(view.server(view.shard(segment.backups[i])->server)->host);
            }
            if (on_other_hosts) CHECK(hosts.size() == backup_count + 1);
        }
        for (const auto& [primary, them] : partners)
            CHECK(them.size() <= partners_max);
    }

    TEST_CASE("backups are on other hosts while there are enough, and on few partners") {
        for (const uint32_t backups : {1U, 2U, 3U}) {
            for (const uint32_t per_host : {1U, 2U}) {
                MovingJob job(new_servers(12, 2, per_host), 16, backups, 1);
                job.settle();
                check_backups(job.view(), backups, true, 6);
            }
            MovingJob one_host(new_servers(5, 2, 5), 16, backups, 1);
            one_host.settle();
            check_backups(one_host.view(), backups, false, 6);
        }
        MovingJob alone(new_servers(2, 2), 16, 3, 1);
        alone.settle();
        check_backups(alone.view(), 1, true, 6);  // the job has no more servers
    }

    TEST_CASE("backups are nearly as even as primaries") {
        MovingJob job(new_servers(40, 2), 16, 1, 1);
        job.settle();
        std::map<uint32_t, double> held;
        for (size_t i = 0; i < job.view().segments().size(); ++i) {
            held[job.view().segments()[i].backups[0]] +=
                static_cast<double>(position_count(job.view().data().segments, i)) * 0x1p-64 * 80;
        }
        CHECK(held.size() == 80);
        for (const auto& [shard, share] : held)
            CHECK(share == doctest::Approx(1).epsilon(0.3));
    }

    TEST_CASE("servers with backups come, go and die at random, and nothing is lost") {
        WEIR_TEST_SEED(seed, 62);
        // Nothing moves that has fewer backups than it should.
        const auto begin = [](MovingJob& job, uint32_t backups) {
            job.begin();
            for (const LearnerNaming& learner : job.last_plan().learners) {
                const size_t i = job.view().segment_index(learner.first);
                const ViewSegment& segment = job.view().segments()[i];
                if (learner.replaces == segment.primary) REQUIRE(segment.backup_count() >= backups);
            }
        };
        for (uint64_t history = 0; history < weir::testing::histories_or(12); ++history) {
            CAPTURE(history);
            Random random(seed + history);
            const auto backups = static_cast<uint32_t>(1 + random.below(2));
            MovingJob job(new_servers(8, 2, 2), 8, backups, random());
            job.settle();
            for (int step = 0; step < 30; ++step) {
                const uint64_t kind = random.below(6);
                if (kind < 3 || job.live().size() < 6) {
                    job.join(
                        new_server(random.below(6), 1 + static_cast<uint32_t>(random.below(3))));
                } else if (kind < 5) {
                    job.leave_any();
                } else {
                    job.die(job.live()[random.below(job.live().size())]);
                }
                begin(job, backups);
                if (random.below(2) == 0) job.finish(false);
                if (random.below(2) == 0 && job.live().size() > 6) {  // some learners are given up
                    job.leave_any();
                    begin(job, backups);
                }
                job.settle();
                // Not 5 %: a primary cannot move to a server with a backup of it; see plan().
                CHECK(job.unevenness() <= 0.25);
                check_backups(job.view(), backups, false, 64);
                for (const ViewSegment& segment : job.view().segments())
                    REQUIRE(segment.primary != kNoShard);
            }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Membership of a job whose segments have a backup.

#include <algorithm>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "lib/manager/members/membership.h"
#include "tests/manager/membership_job.h"

namespace weir::test {
namespace {

using testing::membership_server;
using testing::membership_view;

/// Servers of one shard each; shard and server have the same number.
class Backups {
public:
    explicit Backups(uint32_t servers, bool has_table = true)
        : is(membership_view(servers, 1, 1), MembershipOptions{.backup_count = 1}) {
        if (has_table) is.add_table(1);
        decide();
    }

    void decide() {
        for (const MembershipAction& action : is.decide()) {
            has_loss |= std::holds_alternative<LostSegments>(action);
            if (const auto* const keep = std::get_if<KeepServer>(&action)) {
                ++kept;
                why_kept = keep->why.text();
            }
        }
    }

    /// Learners complete, but for those of `full`, and losers stop until nothing is left to do.
    void settle(uint32_t full = kNoShard) {
        for (int i = 0; i < 1000; ++i) {
            const View view = is.view();
            for (const ViewSegment& segment : view.segments()) {
                if (!segment.has_learner()) continue;
                const LearnerReport report{segment.first, segment.learner.shard,
                                           segment.learner.named};
                const bool is_full = segment.learner.shard == full;
                REQUIRE((is_full ? is.learner_refused(segment.primary, report)
                                 : is.learner_complete(segment.primary, report)));
            }
            const std::set<uint32_t> losers = is.losers();
            for (const uint32_t loser : losers)
                REQUIRE(is.stopped(loser, view.epoch()));
            decide();
            if (is.view().epoch() == view.epoch() && losers.empty()) return;
        }
        FAIL("it does not come to rest");
    }

    [[nodiscard]] size_t without_backup() const {
        return static_cast<size_t>(std::ranges::count_if(
            is.view().segments(),
            [](const ViewSegment& segment) { return segment.backup_count() == 0; }));
    }

    Membership is;
    bool has_loss = false;
    size_t kept = 0;
    std::string why_kept;
};

}  // namespace

TEST_SUITE("backups") {
    TEST_CASE("each segment gets a backup on another server before anything moves") {
        Backups job(3);
        REQUIRE(job.is.join_server(1, membership_server(3, 1)));
        job.decide();
        for (const ViewSegment& segment : job.is.view().segments()) {
            REQUIRE(segment.has_learner());
            CHECK(segment.learner.replaces == kNoShard);
            CHECK(segment.learner.shard != segment.primary);
        }
        job.settle();
        CHECK(job.without_backup() == 0);
        CHECK_FALSE(job.is.view().segments_of(3).empty());
    }

    TEST_CASE("when a server dies its backups are primary, and lost copies are learned anew") {
        Backups job(3);
        job.settle();
        const View before = job.is.view();
        job.is.server_died(1);
        job.decide();
        CHECK_FALSE(job.has_loss);
        const View after = job.is.view();
        for (size_t i = 0; i < after.segments().size(); ++i) {
            const ViewSegment& was = before.segments()[i];
            const uint32_t primary = was.primary == 1 ? was.backups[0] : was.primary;
            CHECK(after.segments()[i].primary == primary);
        }
        CHECK(job.without_backup() > 0);
        job.settle();
        CHECK(job.without_backup() == 0);
        job.is.server_died(0);
        job.settle();
        CHECK_FALSE(job.has_loss);
        CHECK(job.is.view().owned(2).ranges().size() == 1);  // the whole ring, without a copy
        CHECK(job.without_backup() == job.is.view().segments().size());
        job.is.server_died(2);
        job.decide();
        CHECK(job.has_loss);
    }

    TEST_CASE("the ring is at rest when all copies are made for which there is room") {
        Backups job(3);
        CHECK_FALSE(job.is.is_at_rest());
        job.settle();
        CHECK(job.is.is_at_rest());
        job.is.server_died(1);
        job.decide();
        CHECK_FALSE(job.is.is_at_rest());
        job.settle();
        CHECK(job.is.is_at_rest());
        job.is.server_died(0);
        job.decide();
        CHECK(job.is.is_at_rest());  // the last server has nobody for its copies
        REQUIRE(job.is.join_server(1, membership_server(3, 1)));
        job.decide();
        CHECK_FALSE(job.is.is_at_rest());
        job.settle(3);
        CHECK(job.without_backup() > 0);
        CHECK(job.is.is_at_rest());  // the other one is full
    }

    TEST_CASE("a server stays if one that is to take over is full and the others have copies") {
        Backups job(3);
        job.settle();
        REQUIRE(job.is.leave_server(2));
        job.decide();
        job.settle(0);
        CHECK(job.kept == 1);
        CHECK(job.why_kept.find("server 2 stays") != std::string::npos);
        CHECK(job.why_kept.find("no memory for it, or copies of it") != std::string::npos);
        CHECK_FALSE(job.is.is_leaving(2));
        CHECK_FALSE(job.is.view().holds_nothing(2));
        CHECK_FALSE(job.has_loss);
        // With one more server it can leave.
        REQUIRE(job.is.join_server(1, membership_server(3, 1)));
        job.decide();
        job.settle(0);
        REQUIRE(job.is.leave_server(2));
        job.decide();
        job.settle(0);
        CHECK(job.is.view().server(2) == nullptr);
        CHECK(job.without_backup() == 0);
    }

    TEST_CASE("copies that are made are counted, and are no moves") {
        Backups job(3);
        const size_t wanted = job.without_backup();
        REQUIRE(wanted > 0);
        CHECK(job.is.progress().copies_made == 0);
        job.settle();
        CHECK(job.is.progress().copies_made == wanted);
        CHECK(job.is.progress().segments_moved == 0);
    }

    TEST_CASE(
        "until there is a table nothing is lost, and others get what dead servers were to hold") {
        Backups job(4, false);
        const auto shares = [&] {
            std::map<uint32_t, double> held;
            for (size_t i = 0; i < job.is.view().segments().size(); ++i)
                held[job.is.view().segments()[i].primary] +=
                    static_cast<double>(position_count(job.is.view().data().segments, i)) * 0x1p-64;
            return held;
        };
        CHECK(job.is.may_put_out(1, {1, 2}));
        CHECK_FALSE(job.is.may_put_out(1, {0, 1, 2, 3}));
        job.is.server_died(1);
        job.decide();
        CHECK_FALSE(job.has_loss);
        for (const auto& held : shares()) {
            CAPTURE(held.first);
            CHECK(held.second == doctest::Approx(1.0 / 3).epsilon(0.2));
        }
        REQUIRE(job.is.leave_server(3));
        job.decide();
        job.is.server_died(0);
        job.is.server_died(2);
        job.decide();
        CHECK_FALSE(job.has_loss);
        CHECK(shares() == std::map<uint32_t, double>{{3, 1.0}});
        job.is.server_died(3);
        job.decide();
        CHECK(job.has_loss);
    }

    TEST_CASE("from the first table on what only dead servers were to hold is lost") {
        Backups job(3, false);
        job.is.add_table(1);
        job.is.remove_table(1);  // it may have been made, and filled
        CHECK_FALSE(job.is.may_put_out(1, {1}));
        job.is.server_died(1);
        job.decide();
        CHECK(job.has_loss);
    }

    TEST_CASE("a silent server may be put out if others in reach have copies of what it has") {
        Backups job(3);
        CHECK_FALSE(job.is.may_put_out(1, {1}));  // learners do not count
        job.settle();
        CHECK(job.is.may_put_out(1, {1}));
        CHECK_FALSE(job.is.may_put_out(7, {7}));
        CHECK_FALSE(job.is.may_put_out(1, {0, 1, 2}));
        CHECK_FALSE(job.is.may_put_out(1, {0, 1}));  // some are copied on 0 only
        job.is.server_died(0);
        CHECK_FALSE(job.is.may_put_out(1, {1}));  // and 2 has no copy yet of what 0 and 1 had
        job.settle();
        CHECK(job.is.may_put_out(1, {1}));
    }

    TEST_CASE("a silent server that holds nothing may be put out; one that hands over may not") {
        Membership job(membership_view(2, 1, 1), MembershipOptions{});
        (void)job.decide();
        CHECK_FALSE(job.may_put_out(1, {1}));
        REQUIRE(job.join_server(1, membership_server(2, 1)));
        (void)job.decide();
        CHECK(job.may_put_out(2, {2}));
        const View view = job.view();
        for (const ViewSegment& segment : view.segments()) {
            if (!segment.has_learner()) continue;
            REQUIRE(job.learner_complete(
                segment.primary, {segment.first, segment.learner.shard, segment.learner.named}));
        }
        (void)job.decide();
        REQUIRE(job.has_losers());
        REQUIRE_FALSE(job.view().segments_of(2).empty());
        CHECK(job.may_put_out(2, {2}));  // it does not serve yet: the losers get it back
        CHECK_FALSE(job.may_put_out(0, {0}));
        const std::set<uint32_t> losers = job.losers();
        for (const uint32_t loser : losers)
            REQUIRE(job.stopped(loser, job.view().epoch()));
        (void)job.decide();
        CHECK_FALSE(job.may_put_out(2, {2}));
    }

    TEST_CASE("a backup without memory is none any more, and its server gets no other") {
        Backups job(3);
        job.settle();
        const ViewSegment segment = job.is.view().segments()[0];
        const uint32_t full = segment.backups[0];
        // Only the primary can know.
        CHECK(job.is.learner_refused(3 - segment.primary - full, {segment.first, full, 1}));
        CHECK(job.is.view().segments()[0].backups[0] == full);
        REQUIRE(job.is.learner_refused(segment.primary, {segment.first, full, 1}));
        job.decide();
        CHECK(job.is.view().segments()[0].backup_count() == 0);
        job.settle();
        CHECK(job.is.view().segments()[0].backups[0] != full);
        CHECK(job.is.view().segments()[0].backup_count() == 1);
    }

    TEST_CASE("a server may not leave if fewer servers than copies would be left") {
        Backups job(2);
        job.settle();
        CHECK(job.is.leave_server(0).code() == Errc::kUnavailable);
        REQUIRE(job.is.join_server(1, membership_server(2, 1)));
        job.settle();
        REQUIRE(job.is.leave_server(0));
        job.settle();
        CHECK(job.is.view().server(0) == nullptr);
        CHECK(job.without_backup() == 0);
    }

    TEST_CASE("a leaver stays when another server dies that was needed") {
        Backups job(3);
        job.settle();
        REQUIRE(job.is.leave_server(0));
        job.is.server_died(1);
        job.settle();
        CHECK(job.kept == 1);
        CHECK_FALSE(job.has_loss);
        CHECK(job.is.view().server(0) != nullptr);
        CHECK(job.without_backup() == 0);
    }

    TEST_CASE("a learner that was to be primary becomes a backup first if that is lost") {
        Backups job(3);
        job.settle();
        REQUIRE(job.is.join_server(1, membership_server(3, 1)));
        job.decide();
        const View view = job.is.view();
        const auto moving = std::ranges::find_if(view.segments(), [](const ViewSegment& segment) {
            return segment.has_learner() && segment.learner.replaces == segment.primary;
        });
        REQUIRE(moving != view.segments().end());
        job.is.server_died(moving->backups[0]);
        job.decide();
        const ViewSegment& after =
            job.is.view().segments()[job.is.view().segment_index(moving->first)];
        CHECK(after.primary == moving->primary);
        CHECK(after.learner.shard == moving->learner.shard);
        CHECK(after.learner.replaces == kNoShard);
        CHECK(after.learner.named > moving->learner.named);
        job.settle();
        const View moving_again = job.is.view();
        CHECK(job.without_backup() == 0);
        REQUIRE(job.is.leave_server(moving_again.segments()[0].primary));
        job.decide();
        const ViewSegment leaving = job.is.view().segments()[0];
        REQUIRE(leaving.learner.replaces == leaving.primary);
        REQUIRE(job.is.learner_refused(leaving.primary, {leaving.first, leaving.backups[0], 1}));
        job.decide();
        const ViewSegment& refused = job.is.view().segments()[0];
        CHECK(refused.backup_count() == 0);
        CHECK(refused.learner.replaces == kNoShard);
        CHECK(refused.learner.named > leaving.learner.named);
    }
}

}  // namespace weir::test

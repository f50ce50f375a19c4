// SPDX-License-Identifier: Apache-2.0
#include "lib/manager/members/membership.h"

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "tests/manager/membership_job.h"
#include "tests/seed.h"

TEST_SUITE("membership") {
    using namespace weir;
    using weir::testing::membership_server;
    using weir::testing::membership_view;
    using weir::testing::MembershipJob;

    template <class Action>
    static std::vector<Action> only(const std::vector<MembershipAction>& actions) {
        std::vector<Action> found;
        for (const MembershipAction& action : actions) {
            if (const auto* is = std::get_if<Action>(&action)) found.push_back(*is);
        }
        return found;
    }

    static void complete(Membership & membership, const ViewSegment& segment) {
        const ViewLearner& learner = segment.learner;
        CHECK(membership.learner_complete(learner.shard,
                                          {segment.first, learner.shard, learner.named}));
    }

    /// What a shard learns in the newest view.
    static std::vector<ViewSegment> learned_by(const Membership& membership, uint32_t shard) {
        std::vector<ViewSegment> segments;
        for (const ViewSegment& segment : membership.view().segments()) {
            if (segment.learner.shard == shard) segments.push_back(segment);
        }
        return segments;
    }

    /// All learners of the view report; returns what is to be done.
    static std::vector<MembershipAction> complete_all(Membership & membership) {
        const View view = membership.view();
        for (const ViewSegment& segment : view.segments()) {
            if (segment.has_learner()) complete(membership, segment);
        }
        return membership.decide();
    }

    /// All shards that lose something have stopped; returns what is to be done.
    static std::vector<MembershipAction> stop_losers(Membership & membership) {
        for (const uint32_t shard : std::set(membership.losers()))
            CHECK(membership.stopped(shard, membership.view().epoch()));
        return membership.decide();
    }

    TEST_CASE("the first view goes whole to everybody") {
        Membership membership(membership_view(2, 2, 3), {});
        const auto sends = only<SendView>(membership.decide());
        REQUIRE(sends.size() == 1);
        CHECK(sends[0].change->from == 0);
        CHECK(sends[0].shards == std::vector<uint32_t>{0, 1, 2, 3});
        CHECK(sends[0].workers == std::vector<uint32_t>{0, 1, 2});
        CHECK(membership.decide().empty());
    }

    TEST_CASE("a server joins: the losers of a view have it first, the others when all stopped") {
        Membership membership(membership_view(2, 1, 1), {});
        (void)membership.decide();
        REQUIRE(membership.join_server(9, membership_server(2, 1)));
        const auto joined = membership.decide();
        REQUIRE(only<AdmitServer>(joined).size() == 1);
        CHECK(only<AdmitServer>(joined)[0].ticket == 9);
        CHECK(only<AdmitServer>(joined)[0].server == 2);
        CHECK(only<AdmitServer>(joined)[0].first_shard == 2);
        const auto sends = only<SendView>(joined);
        REQUIRE(sends.size() == 2);
        CHECK(sends[0].change->from == 1);
        CHECK(sends[0].shards == std::vector<uint32_t>{0, 1});
        CHECK(sends[1].change->from == 0);
        CHECK(sends[1].shards == std::vector<uint32_t>{2});
        const MoveProgress before = membership.progress();
        CHECK(before.segments_to_move >= 2);
        CHECK(before.share_to_move == doctest::Approx(1.0 / 3).epsilon(0.1));

        const auto first = only<SendView>(complete_all(membership));
        REQUIRE(first.size() == 1);
        CHECK(first[0].shards == std::vector<uint32_t>{0, 1});
        CHECK(first[0].workers.empty());
        const uint64_t epoch = membership.view().epoch();
        CHECK(membership.stopped(0, epoch));
        CHECK(membership.stopped(1, epoch - 1));  // late
        CHECK(membership.stopped(0, epoch));      // repeated
        CHECK(membership.decide().empty());
        CHECK(membership.has_losers());
        CHECK(membership.stopped(1, epoch));
        const auto then = only<SendView>(membership.decide());
        REQUIRE(then.size() == 1);
        CHECK(then[0].shards == std::vector<uint32_t>{2});
        CHECK(then[0].workers == std::vector<uint32_t>{0});
        CHECK(membership.progress().segments_moved == before.segments_to_move);
        CHECK(membership.progress().share_moved == doctest::Approx(before.share_to_move));
        CHECK(membership.progress().segments_to_move == 0);
    }

    TEST_CASE("a server that joins gets everything in one view, each joiner by itself") {
        Membership membership(membership_view(2, 1, 1), {});
        REQUIRE(membership.join_server(8, membership_server(2, 1)));
        REQUIRE(membership.join_server(9, membership_server(3, 1)));
        (void)membership.decide();
        const std::vector<ViewSegment> first = learned_by(membership, 2);
        const std::vector<ViewSegment> second = learned_by(membership, 3);
        REQUIRE(first.size() > 1);
        REQUIRE(second.size() > 1);
        for (const ViewSegment& segment : std::span(first).subspan(1))
            complete(membership, segment);
        complete(membership, second.front());
        CHECK(membership.decide().empty());
        const MoveProgress progress = membership.progress();
        CHECK(progress.segments_complete == first.size());
        CHECK(progress.segments_to_move == first.size() + second.size());
        CHECK(progress.segments_moved == 0);
        CHECK(progress.share_complete > 0);
        CHECK(progress.share_complete < progress.share_to_move);

        complete(membership, first.front());
        CHECK_FALSE(only<SendView>(membership.decide()).empty());
        CHECK(learned_by(membership, 2).empty());
        CHECK(membership.view().segments_of(2).size() == first.size());
        CHECK(membership.view().segments_of(3).empty());
        (void)stop_losers(membership);
        membership.server_died(3);
        CHECK(only<LostSegments>(membership.decide()).empty());
    }

    TEST_CASE("a server that joins and lacks memory gets what it has, once it says so") {
        Membership membership(membership_view(2, 1, 1), {});
        REQUIRE(membership.join_server(9, membership_server(2, 1)));
        (void)membership.decide();
        const std::vector<ViewSegment> learned = learned_by(membership, 2);
        REQUIRE(learned.size() > 2);
        complete(membership, learned[0]);
        complete(membership, learned[1]);
        CHECK(membership.decide().empty());
        const ViewSegment& refused = learned[2];
        CHECK(
            membership.learner_refused(refused.primary, {refused.first, 2, refused.learner.named}));
        CHECK_FALSE(only<SendView>(membership.decide()).empty());
        CHECK(membership.view().segments_of(2).size() == 2);
        (void)stop_losers(membership);
        CHECK(learned_by(membership, 2).empty());
        CHECK(membership.progress().segments_to_move == 0);
    }

    TEST_CASE("what has a backup goes to a server that joins as it is complete") {
        Membership membership(membership_view(3, 1, 1), {.backup_count = 1});
        (void)membership.decide();
        while (!only<SendView>(complete_all(membership)).empty())
            (void)stop_losers(membership);
        REQUIRE(membership.join_server(9, membership_server(3, 1)));
        (void)membership.decide();
        const std::vector<ViewSegment> learned = learned_by(membership, 3);
        const auto moving = std::ranges::find_if(learned, [](const ViewSegment& segment) {
            return segment.learner.replaces == segment.primary;
        });
        REQUIRE(moving != learned.end());
        REQUIRE(learned.size() > 1);
        complete(membership, *moving);
        CHECK_FALSE(only<SendView>(membership.decide()).empty());
        CHECK(membership.view().segments_of(3).size() == 1);
    }

    TEST_CASE("a loser that is dead is not waited for") {
        Membership membership(membership_view(2, 1, 1), {});
        REQUIRE(membership.join_server(9, membership_server(2, 1)));
        (void)membership.decide();
        (void)complete_all(membership);
        CHECK(membership.stopped(1, membership.view().epoch()));
        CHECK(membership.decide().empty());
        membership.server_died(0);
        const auto actions = membership.decide();
        const auto lost = only<LostSegments>(actions);
        REQUIRE(lost.size() == 1);
        CHECK(lost[0].servers == std::vector<uint32_t>{0});
        // What it was to give counts, too: nobody else may have all that was pushed to it.
        CHECK(lost[0].share == doctest::Approx(0.5).epsilon(0.1));
        CHECK(membership.view().server(0) == nullptr);
        for (const SendView& send : only<SendView>(actions))
            CHECK(std::ranges::find(send.shards, 0U) == send.shards.end());
    }

    TEST_CASE("what a dead server was to get stays with those who had it, until all have stopped") {
        for (const bool has_stopped : {false, true}) {
            const View first = membership_view(2, 1, 1);
            Membership membership(first, {});
            REQUIRE(membership.join_server(9, membership_server(2, 1)));
            (void)membership.decide();
            (void)complete_all(membership);
            const uint64_t epoch = membership.view().epoch();
            if (has_stopped) CHECK(membership.stopped(0, epoch));
            membership.server_died(2);
            const auto actions = membership.decide();
            CHECK(only<LostSegments>(actions).empty());
            CHECK_FALSE(membership.has_losers());
            for (const ViewSegment& segment : membership.view().segments())
                CHECK(segment.primary == first.owner(segment.first));
            for (const ViewShard& shard : membership.view().shards())
                CHECK(shard.since == epoch + 1);  // chains begin anew with each change
            const auto sends = only<SendView>(actions);
            REQUIRE(sends.size() == 2);
            CHECK(sends[0].change->from == epoch);
            CHECK(sends[0].shards == std::vector<uint32_t>{0, 1});
            CHECK(sends[1].change->from == epoch - 1);
            CHECK(sends[1].workers == std::vector<uint32_t>{0});
            CHECK(membership.stopped(1, epoch));  // late
        }
    }

    TEST_CASE("a joiner without memory keeps nobody from anything") {
        const View before = membership_view(2, 1, 1);
        Membership membership(before, {});
        REQUIRE(membership.join_server(9, membership_server(2, 1)));
        (void)membership.decide();
        const auto refuse = [&](uint32_t by) {
            const View view = membership.view();
            for (const ViewSegment& segment : view.segments()) {
                if (segment.learner.shard != by) continue;
                CHECK(membership.learner_refused(segment.primary,
                                                 {segment.first, by, segment.learner.named}));
            }
            return membership.decide();
        };
        (void)refuse(2);
        for (const ViewSegment& segment : membership.view().segments()) {
            CHECK_FALSE(segment.has_learner());
            CHECK(segment.primary == before.owner(segment.first));
        }
        // One that leaves can give all to a server that has room.
        REQUIRE(membership.leave_server(0));
        (void)membership.decide();
        (void)refuse(2);
        CHECK(membership.is_leaving(0));
        size_t learners = 0;
        for (const ViewSegment& segment : membership.view().segments()) {
            learners += segment.has_learner();
            if (segment.has_learner()) CHECK(segment.learner.shard == 1);
        }
        CHECK(learners > 0);
        const auto kept = only<KeepServer>(refuse(1));
        REQUIRE(kept.size() == 1);
        CHECK(kept[0].server == 0);
        CHECK(kept[0].why.text().find("have no memory for it") != std::string::npos);
        CHECK(membership.progress().segments_to_move == 0);
        CHECK(complete_all(membership).empty());
    }

    TEST_CASE("a view that its losers have is revised for those who live, and goes on") {
        Membership membership(membership_view(2, 1, 1), {});
        REQUIRE(membership.join_server(8, membership_server(2, 1)));
        REQUIRE(membership.join_server(9, membership_server(3, 1)));
        (void)membership.decide();
        (void)complete_all(membership);
        const uint64_t epoch = membership.view().epoch();
        CHECK(membership.stopped(0, epoch));
        membership.server_died(3);
        const auto revised = membership.decide();
        CHECK(only<ReleaseLosers>(revised).empty());
        CHECK(membership.losers() == std::set<uint32_t>{0, 1});  // they say it for the new view
        CHECK(membership.view().segments_of(3).empty());
        CHECK_FALSE(membership.view().segments_of(2).empty());
        CHECK(membership.stopped(0, epoch + 1));
        CHECK(membership.stopped(1, epoch));  // of the view before
        CHECK(membership.decide().empty());
        CHECK(membership.stopped(1, epoch + 1));
        const auto actions = membership.decide();
        REQUIRE(only<ReleaseLosers>(actions).size() == 1);
        CHECK(only<ReleaseLosers>(actions)[0].epoch == epoch + 1);
        CHECK(only<ReleaseLosers>(actions)[0].shards == std::vector<uint32_t>{0, 1});
        CHECK(only<SendView>(actions)[0].shards == std::vector<uint32_t>{2});
    }

    TEST_CASE("a loser that a copy does not follow keeps what it was to give, and others go on") {
        for (const bool is_full : {false, true}) {
            const View first = membership_view(2, 1, 1);
            Membership membership(first, {});
            REQUIRE(membership.join_server(9, membership_server(2, 1)));
            (void)membership.decide();
            const ViewSegment given = [&] {
                const std::vector<ViewSegment> learned = learned_by(membership, 2);
                return *std::ranges::find(learned, 0U, &ViewSegment::primary);
            }();
            (void)complete_all(membership);
            const uint64_t epoch = membership.view().epoch();
            REQUIRE(membership.losers() == std::set<uint32_t>{0, 1});
            CHECK(membership.stopped(1, epoch));
            const LearnerReport report{given.first, 2, given.learner.named};
            // Who has stopped, and who never had it, has nothing to say of it.
            CHECK(membership.learner_unreachable(1, report));
            CHECK(membership.decide().empty());
            CHECK((is_full ? membership.learner_refused(0, report)
                           : membership.learner_unreachable(0, report)));
            const auto revised = membership.decide();
            CHECK(membership.losers() == std::set<uint32_t>{1});  // it says it for the new view
            REQUIRE(only<SendView>(revised).size() == 1);
            CHECK(only<SendView>(revised)[0].shards == std::vector<uint32_t>{0, 1});
            CHECK(only<ReleaseLosers>(revised).empty());
            for (const ViewSegment& segment : membership.view().segments()) {
                const bool was_of_it = first.owner(segment.first) == 0;
                CHECK((segment.primary == 0) == was_of_it);
            }
            CHECK_FALSE(membership.view().segments_of(2).empty());
            CHECK(membership.view().shard(0)->since == epoch + 1);
            CHECK(membership.stopped(1, epoch + 1));
            const auto released = membership.decide();
            REQUIRE(only<ReleaseLosers>(released).size() == 1);
            CHECK(only<ReleaseLosers>(released)[0].shards == std::vector<uint32_t>{0, 1});
            CHECK_FALSE(membership.has_losers());
            CHECK(learned_by(membership, 2).empty());  // it is not asked again at once
        }
    }

    TEST_CASE("a server that leaves may end when it holds nothing and no view has it") {
        Membership membership(membership_view(3, 1, 1), {});
        REQUIRE(membership.leave_server(1));
        REQUIRE(membership.leave_server(1));
        (void)membership.decide();
        std::vector<EndServer> ended;
        for (int rounds = 0; rounds < 10 && ended.empty(); ++rounds) {
            ended = only<EndServer>(complete_all(membership));
            if (!ended.empty()) break;
            CHECK(membership.stopped(1, membership.view().epoch()));
            ended = only<EndServer>(membership.decide());
        }
        REQUIRE(ended.size() == 1);
        CHECK(ended[0].server == 1);
        CHECK(membership.view().server(1) == nullptr);
        CHECK(membership.leave_server(1).code() == Errc::kNotFound);
    }

    TEST_CASE("the last server cannot leave, and stays if those that were to follow it die") {
        Membership membership(membership_view(2, 1, 1), {});
        REQUIRE(membership.join_server(5, membership_server(2, 1)));
        (void)membership.decide();
        REQUIRE(membership.leave_server(0));
        REQUIRE(membership.leave_server(1));
        const Status refused = membership.leave_server(2);
        CHECK(refused.code() == Errc::kUnavailable);
        CHECK(refused.error().text().find("no other server stays") != std::string::npos);
        (void)membership.decide();
        membership.server_died(2);
        const auto actions = membership.decide();
        CHECK(only<KeepServer>(actions).size() == 2);
        CHECK(only<LostSegments>(actions).empty());
        CHECK_FALSE(membership.is_leaving(0));
        CHECK(complete_all(membership).empty());
    }

    TEST_CASE("a joiner that dies on the way changes nothing, and its number is not used again") {
        const View before = membership_view(3, 2, 1);
        Membership membership(before, {});
        REQUIRE(membership.join_server(5, membership_server(3, 2)));
        (void)membership.decide();
        REQUIRE(membership.progress().segments_to_move > 0);
        membership.server_died(3);
        CHECK(only<LostSegments>(membership.decide()).empty());
        CHECK(membership.progress().segments_to_move == 0);
        for (const ViewSegment& segment : membership.view().segments()) {
            CHECK_FALSE(segment.has_learner());
            CHECK(segment.primary == before.owner(segment.first));
        }
        for (const ViewShard& shard : membership.view().shards())
            CHECK(shard.since == before.shard(shard.number)->since);
        REQUIRE(membership.join_server(6, membership_server(3, 2)));
        CHECK(only<AdmitServer>(membership.decide())[0].server == 4);
        CHECK(membership.view().shards().back().number == 9);
    }

    TEST_CASE("a name that is taken and a server that cannot be are refused, saying why") {
        Membership membership(membership_view(2, 1, 1), {});
        REQUIRE(membership.join_server(5, membership_server(2, 1)));
        CHECK(membership.join_server(5, membership_server(3, 1)).code() == Errc::kAlreadyExists);
        CHECK(membership.join_worker(5, {}).code() == Errc::kAlreadyExists);
        const Status same = membership.join_server(6, membership_server(2, 1));
        CHECK(same.code() == Errc::kAlreadyExists);
        CHECK(same.error().text().find("s2.0") != std::string::npos);
        CHECK(membership.join_server(6, membership_server(1, 1)).code() == Errc::kAlreadyExists);
        CHECK(membership.join_server(6, {0, 0, 1, {"a", "a"}}).code() == Errc::kAlreadyExists);
        CHECK(membership.join_server(6, {0, 0, 0, {"a"}}).code() == Errc::kInvalidArgument);
        CHECK(membership.join_server(6, {0, 0, 1, {}}).code() == Errc::kInvalidArgument);
        CHECK(membership.join_server(6, {0, 0, 1, {std::string(600, 'a')}}).code() ==
              Errc::kInvalidArgument);
        membership.withdraw(5);
        CHECK(membership.join_server(6, membership_server(2, 1)));
    }

    TEST_CASE("a worker joins at the largest first iteration that the shards of one view name") {
        Membership membership(membership_view(2, 1, 1), {});
        membership.add_table(4);
        (void)membership.decide();
        REQUIRE(membership.join_worker(1, {.rank = 8}));
        const auto asks = only<AskFirstIteration>(membership.decide());
        REQUIRE(asks.size() == 1);
        CHECK(asks[0].epoch == 1);
        CHECK(asks[0].shards == std::vector<uint32_t>{0, 1});
        CHECK(asks[0].tables == std::vector<uint32_t>{4});
        CHECK(membership.first_iteration(0, 1, 4, 90));
        // A view is made meanwhile, so everybody is asked again.
        membership.worker_left(0, {});
        const auto again = membership.decide();
        REQUIRE(only<AskFirstIteration>(again).size() == 1);
        CHECK(only<AskFirstIteration>(again)[0].epoch == 2);
        CHECK(membership.first_iteration(1, 1, 4, 95));
        CHECK(membership.first_iteration(0, 2, 4, 5));
        CHECK(membership.first_iteration(0, 2, 4, 99));  // repeated
        CHECK(membership.decide().empty());
        membership.add_table(6);
        const auto more = only<AskFirstIteration>(membership.decide());
        REQUIRE(more.size() == 1);
        CHECK(more[0].tables == std::vector<uint32_t>{6});
        CHECK(membership.first_iteration(1, 2, 4, 7));
        CHECK(membership.first_iteration(1, 2, 6, 1));
        CHECK(membership.decide().empty());
        CHECK(membership.first_iteration(0, 2, 6, 3));
        const auto admits = only<AdmitWorker>(membership.decide());
        REQUIRE(admits.size() == 1);
        CHECK(admits[0].worker == 1);
        CHECK(membership.view().worker(0) == nullptr);
        CHECK(membership.view().worker(1)->rank == 8);
        CHECK(membership.view().first_iteration(1, 4) == 7);
        CHECK(membership.view().first_iteration(1, 6) == 3);
        CHECK(membership.view().first_iteration(1, 7) == 1);
    }

    TEST_CASE("when nobody waits for first iterations any more, the shards are let go on") {
        Membership membership(membership_view(2, 1, 1), {});
        membership.add_table(4);
        (void)membership.decide();
        REQUIRE(membership.join_worker(1, {.rank = 8}));
        CHECK(only<AskFirstIteration>(membership.decide()).size() == 1);
        CHECK(membership.first_iteration(0, 1, 4, 10));
        membership.withdraw(1);
        const auto given_up = membership.decide();
        CHECK(only<SendView>(given_up).empty());
        REQUIRE(only<AskFirstIteration>(given_up).size() == 1);
        CHECK(only<AskFirstIteration>(given_up)[0].tables.empty());
        CHECK(only<AskFirstIteration>(given_up)[0].shards == std::vector<uint32_t>{0, 1});
        CHECK(membership.view().workers().size() == 1);
        // The answers to the old question do not count for the next joiner.
        REQUIRE(membership.join_worker(2, {.rank = 9}));
        CHECK(only<AskFirstIteration>(membership.decide())[0].epoch == 2);
        CHECK(membership.first_iteration(0, 1, 4, 10));
        CHECK(membership.first_iteration(1, 2, 4, 8));
        CHECK(membership.decide().empty());
        CHECK(membership.first_iteration(0, 2, 4, 12));
        CHECK(only<AdmitWorker>(membership.decide()).size() == 1);
        CHECK(membership.view().first_iteration(1, 4) == 12);
    }

    TEST_CASE(
        "a question that is given up lets the shards go on, and is put again when it may be") {
        Membership membership(membership_view(2, 1, 1), {});
        membership.add_table(4);
        (void)membership.decide();
        REQUIRE(membership.join_worker(1, {.rank = 8}));
        CHECK(only<AskFirstIteration>(membership.decide()).size() == 1);
        CHECK(membership.first_iteration(0, 1, 4, 10));
        CHECK(membership.is_asking());
        CHECK(membership.allow_questions(false));
        // No view: workers that have it would wait for a shard that does not get it.
        const auto given_up = membership.decide();
        REQUIRE(given_up.size() == 1);
        CHECK(only<AskFirstIteration>(given_up)[0].tables.empty());
        CHECK(only<AskFirstIteration>(given_up)[0].shards == std::vector<uint32_t>{0, 1});
        CHECK(membership.view().epoch() == 1);
        CHECK_FALSE(membership.is_asking());
        CHECK(membership.first_iteration(1, 1, 4, 12));  // it comes late
        CHECK(membership.decide().empty());
        // Who takes part in no iteration waits for nobody.
        membership.withdraw(1);
        REQUIRE(membership.join_worker(2, {.rank = 9, .has_iterations = false}));
        CHECK(only<AdmitWorker>(membership.decide()).size() == 1);
        REQUIRE(membership.join_worker(3, {.rank = 10}));
        CHECK(membership.decide().empty());
        CHECK(membership.allow_questions(true));
        CHECK_FALSE(membership.allow_questions(true));
        CHECK(only<AskFirstIteration>(membership.decide())[0].epoch == 2);  // who joined made that
        CHECK(membership.first_iteration(0, 2, 4, 11));
        CHECK(membership.first_iteration(1, 2, 4, 12));
        CHECK(only<AdmitWorker>(membership.decide()).size() == 1);
        CHECK(membership.view().first_iteration(2, 4) == 12);
    }

    TEST_CASE("a worker without iterations joins at once and is a member of none") {
        Membership membership(membership_view(2, 1, 1), {});
        membership.add_table(4);
        REQUIRE(membership.join_worker(1, {.rank = 8, .has_iterations = false}));
        const auto actions = membership.decide();
        CHECK(only<AskFirstIteration>(actions).empty());
        REQUIRE(only<AdmitWorker>(actions).size() == 1);
        CHECK(membership.view().first_iteration(1, 4) == kNoIteration);
        CHECK(membership.view().first_iteration(1, 5) == kNoIteration);
    }

    TEST_CASE("a dead worker leaves the members if the job continues, else it stays one") {
        Membership goes_on(membership_view(1, 1, 3), {.on_worker_loss = OnWorkerLoss::kContinue});
        goes_on.worker_died(1);
        goes_on.worker_died(7);
        CHECK(only<SendView>(goes_on.decide()).back().workers == std::vector<uint32_t>{0, 2});
        CHECK(goes_on.view().worker(1) == nullptr);
        Membership stops(membership_view(1, 1, 3), {});
        (void)stops.decide();
        stops.worker_died(1);
        CHECK(stops.decide().empty());
        CHECK(stops.view().worker(1) != nullptr);
        stops.worker_left(0, {});
        CHECK(only<SendView>(stops.decide()).back().workers == std::vector<uint32_t>{2});
    }

    TEST_CASE("what a worker that leaves has withdrawn is in the view that it is not in any more") {
        Membership membership(membership_view(1, 1, 3), {});
        membership.add_table(4);
        (void)membership.decide();
        const ViewWithdrawal withdrawn{2, 4, 7, 8};
        membership.worker_left(2, std::array{withdrawn, ViewWithdrawal{2, 5, 1, 1}});
        CHECK(membership.view().data().withdrawals.empty());
        (void)membership.decide();
        CHECK(membership.view().worker(2) == nullptr);
        CHECK(membership.view().data().withdrawals == std::vector{withdrawn});  // no table 5
        membership.worker_left(1, std::array{ViewWithdrawal{1, 4, 9, 9}});
        (void)membership.decide();
        CHECK(membership.view().data().withdrawals ==
              std::vector{ViewWithdrawal{1, 4, 9, 9}, withdrawn});
    }

    TEST_CASE("servers join and leave one by one with little more moved than must be") {
        WEIR_TEST_SEED(seed, 71);
        Random random(seed);
        MembershipJob job(membership_view(4, 2, 1), {}, random());
        double least = 0;
        for (int i = 0; i < 40; ++i) {
            const auto live = static_cast<double>(job.servers().size());
            if (job.servers().size() < 4 || (job.servers().size() < 8 && random.below(2) == 0)) {
                least += 0.95 / (live + 1);
                job.join_server(2);
            } else {
                const std::vector<uint32_t> staying = job.staying();
                least += 1 / live;
                CHECK(job.leave(staying[random.below(staying.size())]));
            }
            job.come_to_rest();
        }
        MESSAGE("moved " << job.moved() / least << " of the least");
        CHECK(job.moved() <= 1.1 * least);
    }

    /// One thing that somebody may want at some time.
    static void wish(MembershipJob & job, Random & random) {
        const std::vector<uint32_t> staying = job.staying();
        const std::vector<uint32_t> workers = job.workers();
        const uint32_t some = staying.empty() ? 0 : staying[random.below(staying.size())];
        switch (random.below(13)) {
            case 0:
            case 1:
                if (job.servers().size() > 9) return;
                return job.join_server(1 + static_cast<uint32_t>(random.below(3)),
                                       1 + static_cast<uint32_t>(random.below(3)));
            case 2:
            case 3:
                if (staying.empty()) return;
                CHECK(static_cast<bool>(job.leave(some)) == (staying.size() > 1));
                return;
            case 4: {
                if (job.servers().size() < 2 || random.below(2) == 0) return;
                auto at = job.servers().begin();
                std::advance(at, random.below(job.servers().size()));
                return job.kill_server(*at);
            }
            case 5:
            case 6: return job.join_worker(random.below(4) != 0);
            case 7:
            case 8:
                if (workers.size() < 2) return;
                return job.end_worker(workers[random.below(workers.size())], random.below(2) == 0);
            case 9: return job.make_table();
            case 10: return job.withdraw_last();
            case 11: return job.allow_questions(random.below(2) == 0);
            default: return job.be_hostile();
        }
    }

    TEST_CASE("whatever happens in whatever order: one primary, and all comes to rest") {
        WEIR_TEST_SEED(seed, 72);
        uint64_t admitted = 0;
        uint64_t ended = 0;
        uint64_t kept = 0;
        double moved = 0;
        for (uint64_t history = 0; history < weir::testing::histories_or(150); ++history) {
            CAPTURE(history);
            Random random(seed + history);
            const auto servers = 1 + static_cast<uint32_t>(random.below(5));
            const auto shards = 1 + static_cast<uint32_t>(random.below(3));
            MembershipJob job(membership_view(servers, shards, 2),
                              {.on_worker_loss = OnWorkerLoss::kContinue}, random());
            if (history % 2 == 0) job.let_losers_be_stuck();
            const uint64_t pace = 1 + random.below(40);
            for (int step = 0; step < 2000; ++step) {
                if (random.below(pace) == 0 && step % 4 == 0) wish(job, random);
                job.step();
            }
            job.come_to_rest();
            admitted += job.admitted_workers();
            ended += job.ended().size();
            kept += job.kept().size();
            moved += job.moved();
        }
        MESSAGE(admitted << " workers admitted, " << ended << " servers ended, " << kept
                         << " kept, " << moved << " rings moved");
    }
}

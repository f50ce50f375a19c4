// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// MembershipJob: shards and workers that do what Membership says, each as simple as can be, and a
/// judge that looks at every step. What is on the way arrives late, repeated and in any order.

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/manager/members/membership.h"
#include "tests/ring/view_step.h"

namespace weir::testing {

inline NewServer membership_server(uint64_t id, uint32_t shards, uint32_t weight = 1) {
    NewServer server{.rank = static_cast<uint32_t>(id), .host = id, .weight = weight};
    for (uint32_t i = 0; i < shards; ++i)
        server.addresses.push_back("s" + std::to_string(id) + "." + std::to_string(i));
    return server;
}

inline View membership_view(uint32_t servers, uint32_t shards, uint32_t workers) {
    std::vector<NewServer> list;
    for (uint32_t i = 0; i < servers; ++i)
        list.push_back(membership_server(i, shards));
    ViewData data = first_view(list, 4)->data();
    for (uint32_t i = 0; i < workers; ++i)
        data.workers.push_back({data.next_worker++, i, 1});
    return std::move(View::make(std::move(data))).value();
}

class MembershipJob {
public:
    MembershipJob(View first, const MembershipOptions& options, uint64_t seed)
        : random_(seed), newest_(first), membership_(std::move(first), options) {
        for (const ViewServer& server : newest_.servers())
            servers_.insert(server.number);
        for (const ViewShard& shard : newest_.shards())
            shards_[shard.number].server = shard.server;
        for (const ViewWorker& worker : newest_.workers())
            workers_[worker.number];
        act();
    }

    [[nodiscard]] Membership& membership() { return membership_; }

    /// From now on some losers do not get what they are to hand over to who is to get it.
    void let_losers_be_stuck() { are_stuck_ = true; }

    [[nodiscard]] const View& view() const { return membership_.view(); }

    [[nodiscard]] double moved() const { return moved_; }

    [[nodiscard]] uint64_t admitted_workers() const { return admitted_workers_; }

    [[nodiscard]] const std::set<uint32_t>& servers() const { return servers_; }

    [[nodiscard]] const std::set<uint32_t>& ended() const { return ended_; }

    [[nodiscard]] const std::set<uint32_t>& kept() const { return kept_; }

    [[nodiscard]] std::vector<uint32_t> workers() const {
        std::vector<uint32_t> numbers;
        for (const auto& [number, worker] : workers_)
            if (!worker.is_gone) numbers.push_back(number);
        return numbers;
    }

    [[nodiscard]] std::vector<uint32_t> staying() const {
        std::vector<uint32_t> numbers;
        for (const uint32_t server : servers_)
            if (!leavers_.contains(server)) numbers.push_back(server);
        return numbers;
    }

    void join_server(uint32_t shards, uint32_t weight = 1) {
        const uint64_t id = next_id_++;
        REQUIRE(membership_.join_server(id, membership_server(id, shards, weight)));
        pending_servers_.insert(id);
        last_ticket_ = id;
        act_or_not();
    }

    void join_worker(bool has_iterations) {
        last_ticket_ = next_id_++;
        REQUIRE(membership_.join_worker(last_ticket_, {7, has_iterations}));
        pending_workers_.insert(last_ticket_);
        act_or_not();
    }

    void allow_questions(bool allow) {
        (void)membership_.allow_questions(allow);
        act_or_not();
    }

    void withdraw_last() {
        membership_.withdraw(last_ticket_);
        pending_servers_.erase(last_ticket_);
        pending_workers_.erase(last_ticket_);
    }

    Status leave(uint32_t server) {
        const Status status = membership_.leave_server(server);
        if (status) leavers_.insert(server);
        act_or_not();
        return status;
    }

    void kill_server(uint32_t server) {
        servers_.erase(server);
        leavers_.erase(server);
        std::erase_if(shards_, [&](const auto& entry) { return entry.second.server == server; });
        membership_.server_died(server);
        act_or_not();
    }

    void end_worker(uint32_t worker, bool dies) {
        workers_[worker].is_gone = true;
        dies ? membership_.worker_died(worker) : membership_.worker_left(worker, {});
        act_or_not();
    }

    void make_table() {
        const uint32_t table = next_table_++;
        for (auto& [number, shard] : shards_)
            shard.inbox.emplace_back([table](Shard& to) { to.tables.insert(table); });
        tables_.insert(table);
        membership_.add_table(table);
        act_or_not();
    }

    /// One shard or worker does one thing, or one answer arrives.
    void step() {
        const uint64_t kind = random_.below(8);
        if (kind < 2 && !to_manager_.empty()) return deliver();
        if (kind == 2) act();
        if (kind == 3 && !workers_.empty()) return step_worker();
        if (shards_.empty()) return;
        auto at = shards_.begin();
        std::advance(at, random_.below(shards_.size()));
        step_shard(at->first, at->second);
    }

    /// What no peer may send. It changes nothing.
    void be_hostile() {
        const View before = view();
        Membership& m = membership_;
        const auto some = static_cast<uint32_t>(random_());
        const uint32_t shard = static_cast<uint32_t>(random_.below(before.data().next_shard + 1));
        const uint64_t far = before.epoch() + 1 + (random_() >> (1 + random_.below(63)));
        CHECK(m.stopped(shard, far).code() == Errc::kProtocol);
        CHECK(m.stopped(~0U, before.epoch()).code() == Errc::kProtocol);
        CHECK(m.first_iteration(shard, before.epoch(), 0, 0).code() == Errc::kProtocol);
        CHECK(m.first_iteration(shard, before.epoch(), some, kNoIteration).code() ==
              Errc::kProtocol);
        CHECK_FALSE(m.first_iteration(shard, before.epoch() + 9, 0, 3));
        (void)m.first_iteration(shard, before.epoch(), 1U << 31 | some, 1ULL << 60);
        CHECK(m.learner_complete(shard, {random_(), some, far}).code() == Errc::kProtocol);
        (void)m.learner_complete(shard, {random_(), some, before.epoch()});
        for (const ViewSegment& segment : before.segments()) {
            const ViewLearner& learner = segment.learner;
            if (!segment.has_learner() || shard == learner.shard || shard == segment.primary) {
                (void)m.learner_complete(shard, {segment.first, shard, learner.named + 1});
                continue;
            }
            CHECK(m.learner_complete(shard, {segment.first, learner.shard, learner.named}).code() ==
                  Errc::kProtocol);
        }
        CHECK_FALSE(m.leave_server(before.data().next_server + (some >> 8)));
        m.server_died(before.data().next_server);
        m.worker_died(before.data().next_worker);
        m.worker_left(~0U, {});
        m.withdraw(~0ULL);
    }

    /// Nothing more is wished for: everything comes to rest.
    void come_to_rest() {
        (void)membership_.allow_questions(true);
        // Each joining worker needs an answer of every shard for every table, and new ones with each view.
        for (int rounds = 0; rounds < 1'000'000; ++rounds) {
            step();
            if (rounds % 64 == 0 && is_at_rest()) break;
        }
        REQUIRE(is_at_rest());
        const MoveProgress progress = membership_.progress();
        CHECK(progress.segments_to_move == 0);
        CHECK(progress.share_to_move == 0);
        CHECK(pending_servers_.empty());
        if (!shards_.empty()) CHECK(pending_workers_.empty());
        CHECK(leavers_.empty());
        // Shards of one server give each other nothing.
        if (servers_.size() > 1) CHECK(unevenness() <= 0.05);
        std::vector<uint32_t> listed;
        for (const ViewServer& server : view().servers())
            listed.push_back(server.number);
        CHECK(listed == std::vector<uint32_t>(servers_.begin(), servers_.end()));
        for (const auto& [number, shard] : shards_) {
            CHECK(shard.view == view());
            CHECK(shard.hold.empty());
        }
        for (const auto& [number, worker] : workers_) {
            if (!worker.is_gone) CHECK(worker.view == view());
        }
    }

private:
    struct Shard {
        uint32_t server = 0;
        View view = {};
        std::deque<std::function<void(Shard&)>> inbox = {};
        View settled = {};      ///< the last one of which it may have dropped what that took
        uint64_t stopping = 0;  ///< the epoch for which it has yet to stop
        std::set<uint32_t> tables = {};
        std::map<uint32_t, uint64_t> closed = {};  ///< by table
        std::map<uint32_t, uint64_t> hold = {};
        std::set<std::pair<uint64_t, uint64_t>> reported = {};
    };

    struct Worker {
        View view = {};
        std::deque<ViewChange> inbox = {};
        bool is_gone = false;
    };

    static constexpr uint64_t kWindow = 2;

    [[nodiscard]] bool is_at_rest() {
        act();
        if (!to_manager_.empty() || membership_.has_losers()) return false;
        for (const auto& [number, shard] : shards_)
            if (!shard.inbox.empty() || shard.stopping != 0) return false;
        for (const auto& [number, worker] : workers_)
            if (!worker.is_gone && !worker.inbox.empty()) return false;
        const auto segments = view().segments();
        return std::ranges::none_of(segments, &ViewSegment::has_learner) &&
               (pending_workers_.empty() || shards_.empty());
    }

    /// The manager decides at each input, or after some.
    void act_or_not() {
        if (random_.below(3) != 0) act();
    }

    void act() {
        for (const MembershipAction& action : membership_.decide())
            std::visit([this](const auto& is) { take(is); }, action);
        CHECK(view() == newest_);
        check_learning();
    }

    /// It speaks of all learners of the view, and of nobody else.
    void check_learning() {
        std::map<uint32_t, uint64_t> learned;  // segments, by server
        for (const ViewSegment& segment : view().segments())
            if (segment.has_learner()) ++learned[view().shard(segment.learner.shard)->server];
        const std::map<uint32_t, LearningProgress> all = membership_.learning();
        CHECK(all.size() == learned.size());
        for (const auto& [server, is] : all) {
            CHECK(is.is_sound(view().epoch()));
            CHECK(is.to_come() + is.waiting == learned[server]);
            CHECK(is.taken <= held_by(server));
        }
    }

    /// Segments of which a server has a copy.
    [[nodiscard]] uint64_t held_by(uint32_t server) const {
        const auto is_its = [&](uint32_t shard) {
            return shard != kNoShard && view().shard(shard)->server == server;
        };
        return static_cast<uint64_t>(
            std::ranges::count_if(view().segments(), [&](const ViewSegment& segment) {
                return is_its(segment.primary) || std::ranges::any_of(segment.backups, is_its);
            }));
    }

    void take(const SendView& send) {
        if (send.change->epoch > newest_.epoch()) see_new_view(*send.change);
        for (const uint32_t number : send.shards) {
            REQUIRE(shards_.contains(number));
            shards_[number].inbox.emplace_back(
                [this, number, change = send.change](Shard& to) { adopt(number, to, *change); });
        }
        for (const uint32_t number : send.workers) {
            REQUIRE(workers_.contains(number));
            CHECK_FALSE(workers_[number].is_gone);
            workers_[number].inbox.push_back(*send.change);
        }
    }

    void take(const ReleaseLosers& release) {
        CHECK(release.epoch == newest_.epoch());
        for (const auto& [number, shard] : shards_)
            if (loses(number)) CHECK((shard.view == newest_ && shard.stopping == 0));
        for (const uint32_t number : release.shards) {
            REQUIRE(shards_.contains(number));
            shards_[number].inbox.emplace_back([](Shard& to) { to.settled = to.view; });
        }
        settled_ = newest_;
    }

    void take(const AskFirstIteration& ask) {
        for (const uint32_t number : ask.shards) {
            if (!shards_.contains(number)) continue;
            shards_[number].inbox.emplace_back(
                [this, number, ask](Shard& to) { answer(number, to, ask); });
        }
    }

    void take(const AdmitServer& admit) {
        CHECK(pending_servers_.erase(admit.ticket) == 1);
        CHECK(servers_ever_.insert(admit.server).second);
        servers_.insert(admit.server);
        const uint32_t shards = shard_count(admit);
        for (uint32_t i = 0; i < shards; ++i) {
            shards_[admit.first_shard + i].server = admit.server;
            shards_[admit.first_shard + i].tables = tables_;
        }
    }

    void take(const AdmitWorker& admit) {
        CHECK(pending_workers_.erase(admit.ticket) == 1);
        CHECK(workers_.try_emplace(admit.worker).second);
        ++admitted_workers_;
    }

    void take(const RefuseJoin& refuse) { FAIL(refuse.why.text()); }

    void take(const KeepServer& keep) {
        CHECK(leavers_.erase(keep.server) == 1);
        kept_.insert(keep.server);
    }

    void take(const EndServer& end) {
        CHECK(leavers_.erase(end.server) == 1);
        CHECK(newest_.server(end.server) == nullptr);
        for (const auto& [number, shard] : shards_) {
            if (shard.server == end.server) CHECK(view().segments_of(number).empty());
        }
        servers_.erase(end.server);
        ended_.insert(end.server);
        std::erase_if(shards_, [&](const auto& e) { return e.second.server == end.server; });
    }

    void take(const LostSegments& lost) {
        CHECK(!lost.positions.ranges().empty());
        CHECK(lost.share > 0);
    }

    [[nodiscard]] uint32_t shard_count(const AdmitServer& admit) const {
        return static_cast<uint32_t>(
            std::ranges::count(view().shards(), admit.server, &ViewShard::server));
    }

    /// Every view follows the one before by the rules of views.
    void see_new_view(const ViewChange& change) {
        newest_ =
            std::move(apply(change.from == settled_.epoch() ? settled_ : newest_, change)).value();
        // Nobody serves by a view that was sent to its losers alone: it may be taken back.
        const View& before = settled_;
        ViewData after = newest_.data();
        for (ViewShard& shard : after.shards) {
            if (is_taken_back(shard.number)) shard.since = before.shard(shard.number)->since;
        }
        const Status step = check_view_step(before.data(), after);
        REQUIRE_MESSAGE(step, (step ? std::string() : step.error().text()));
        for (size_t i = 0; i < newest_.segments().size(); ++i) {
            const ViewSegment& segment = newest_.segments()[i];
            const uint32_t was = before.owner(segment.first);
            if (was == segment.primary || segment.primary == kNoShard) continue;
            moved_ += static_cast<double>(position_count(newest_.data().segments, i)) * 0x1p-64;
            CHECK(reported_.contains({segment.first, segment.primary}));
        }
        check_joiners();
        for (const ViewWorker& worker : newest_.workers()) {
            if (before.worker(worker.number) != nullptr) continue;
            for (const uint32_t table : tables_)
                check_nothing_closed(worker.number, table);
        }
        const bool has_losers = std::ranges::any_of(
            newest_.shards(), [&](const ViewShard& shard) { return loses(shard.number); });
        if (!has_losers) settled_ = newest_;
    }

    /// Who is primary for the first time is so of all that it was to get: until then it may die.
    void check_joiners() {
        const auto is_primary_in = [&](const View& view, uint32_t server) {
            return std::ranges::any_of(view.segments(), [&](const ViewSegment& segment) {
                const ViewShard* const primary = view.shard(segment.primary);
                return primary != nullptr && primary->server == server;
            });
        };
        for (const ViewSegment& segment : newest_.segments()) {
            if (!segment.has_learner()) continue;
            const uint32_t server = newest_.shard(segment.learner.shard)->server;
            CHECK((is_primary_in(settled_, server) || !is_primary_in(newest_, server)));
        }
    }

    /// Whether the shard loses something by the newest view.
    [[nodiscard]] bool loses(uint32_t number) const {
        return std::ranges::any_of(newest_.segments(), [&](const ViewSegment& segment) {
            return settled_.owner(segment.first) == number && segment.primary != number;
        });
    }

    /// Whether it has lost or got something since the settled view, and all that is undone.
    [[nodiscard]] bool is_taken_back(uint32_t number) const {
        const ViewShard* const was = settled_.shard(number);
        if (was == nullptr || was->since == newest_.shard(number)->since) return false;
        return std::ranges::none_of(newest_.segments(), [&](const ViewSegment& segment) {
            const uint32_t owner = settled_.owner(segment.first);
            return owner != segment.primary && (owner == number || segment.primary == number);
        });
    }

    /// No shard has closed an iteration of which the new worker is to be a member.
    void check_nothing_closed(uint32_t worker, uint32_t table) {
        for (auto& [number, shard] : shards_)
            CHECK(shard.closed[table] < newest_.first_iteration(worker, table));
    }

    void adopt(uint32_t number, Shard& shard, const ViewChange& change) {
        Result<View> next = apply(shard.view, change);
        REQUIRE_MESSAGE(next, (next ? std::string() : next.error().text()));
        CHECK(next->epoch() > shard.view.epoch());
        const View before = std::exchange(shard.view, std::move(*next));
        shard.hold.clear();
        if (shard.settled.epoch() == 0) shard.settled = shard.view;
        bool loses = false;
        for (const ViewSegment& segment : shard.view.segments()) {
            const uint32_t was = shard.settled.owner(segment.first);
            const bool had = before.epoch() != 0 && before.owner(segment.first) == number;
            loses |= was == number && segment.primary != number;
            if (segment.primary == number && was != number && !had)
                check_alone(number, segment.first);
        }
        shard.stopping = loses ? shard.view.epoch() : 0;
        if (!loses) shard.settled = shard.view;
    }

    /// Nobody else answers for the position: neither by its view nor because it has not stopped.
    void check_alone(uint32_t number, uint64_t position) {
        for (const auto& [other, shard] : shards_) {
            if (other == number || shard.view.epoch() == 0) continue;
            CHECK(shard.view.owner(position) != other);
            const bool is_old_owner = shard.stopping == shards_[number].view.epoch();
            CHECK_FALSE(is_old_owner);
        }
    }

    void answer(uint32_t number, Shard& shard, const AskFirstIteration& ask) {
        CHECK(shard.view.epoch() == ask.epoch);
        if (ask.tables.empty()) shard.hold.clear();
        for (const uint32_t table : ask.tables) {
            REQUIRE(shard.tables.contains(table));
            const uint64_t first = shard.closed[table] + kWindow + 1;
            shard.hold[table] = first;
            post([this, number, epoch = ask.epoch, table, first] {
                CHECK(membership_.first_iteration(number, epoch, table, first));
            });
        }
    }

    void step_shard(uint32_t number, Shard& shard) {
        const uint64_t kind = random_.below(4);
        if (kind == 0 && shard.stopping == 0) return close_iteration(number, shard);
        if (kind == 1 && shard.stopping != 0) {
            if (are_stuck_ && random_.below(8) == 0) return say_stuck(number, shard);
            const uint64_t epoch = std::exchange(shard.stopping, 0);
            return post([this, number, epoch] { CHECK(membership_.stopped(number, epoch)); });
        }
        if (kind == 2) return learn(number, shard);
        if (shard.inbox.empty()) return;
        const auto message = std::move(shard.inbox.front());
        shard.inbox.pop_front();
        message(shard);
    }

    /// Something that it is to hand over has not got to who is to get it. It may be tried again at once.
    void say_stuck(uint32_t number, const Shard& shard) {
        for (const ViewSegment& segment : shard.view.segments()) {
            if (shard.settled.owner(segment.first) != number || segment.primary == number) continue;
            return post([this, number, report = LearnerReport{segment.first, segment.primary, 0}] {
                CHECK(membership_.learner_unreachable(number, report));
                membership_.try_those_apart();
            });
        }
    }

    /// A learner of its view is complete, which it says once, or as often as the network wants.
    void learn(uint32_t number, Shard& shard) {
        for (const ViewSegment& segment : shard.view.segments()) {
            const ViewLearner& learner = segment.learner;
            if (learner.shard != number || random_.below(2) == 0) continue;
            if (!shard.reported.insert({segment.first, learner.named}).second) continue;
            const LearnerReport report{segment.first, number, learner.named};
            post([this, number, report] {
                CHECK(membership_.learner_complete(number, report));
                reported_.insert({report.first, report.shard});
            });
        }
    }

    void close_iteration(uint32_t number, Shard& shard) {
        if (shard.tables.empty() || shard.view.epoch() == 0) return;
        auto table = shard.tables.begin();
        std::advance(table, random_.below(shard.tables.size()));
        const uint64_t iteration = shard.closed[*table] + 1;
        if (shard.hold.contains(*table) && iteration >= shard.hold[*table]) return;
        for (const ViewWorker& worker : newest_.workers()) {
            if (newest_.first_iteration(worker.number, *table) > iteration) continue;
            if (workers_[worker.number].is_gone) continue;
            INFO("shard " << number << " closes " << iteration << " of table " << *table);
            CHECK(shard.view.first_iteration(worker.number, *table) <= iteration);
        }
        shard.closed[*table] = iteration;
    }

    void step_worker() {
        auto at = workers_.begin();
        std::advance(at, random_.below(workers_.size()));
        Worker& worker = at->second;
        if (worker.is_gone || worker.inbox.empty()) return;
        Result<View> next = apply(worker.view, worker.inbox.front());
        REQUIRE_MESSAGE(next, (next ? std::string() : next.error().text()));
        worker.view = std::move(*next);
        worker.inbox.pop_front();
        CHECK(worker.view.worker(at->first) != nullptr);
    }

    void post(std::function<void()> message) {
        if (random_.below(4) == 0) to_manager_.push_back(message);
        to_manager_.push_back(std::move(message));
    }

    /// Some answer arrives, perhaps not for the last time.
    void deliver() {
        const size_t i = random_.below(to_manager_.size());
        const auto message = to_manager_[i];
        to_manager_[i] = std::move(to_manager_.back());
        to_manager_.pop_back();
        message();
        act_or_not();
    }

    [[nodiscard]] double unevenness() const {
        double weights = 0;
        double whole = 0;
        std::map<uint32_t, double> held;
        for (size_t i = 0; i < view().segments().size(); ++i) {
            const ViewSegment& segment = view().segments()[i];
            if (segment.primary == kNoShard) continue;
            const auto size = static_cast<double>(position_count(view().data().segments, i));
            held[segment.primary] += size;
            whole += size;
        }
        for (const ViewServer& server : view().servers())
            weights += server.weight;
        double worst = 0;
        for (const ViewShard& shard : view().shards()) {
            const auto count = static_cast<double>(
                std::ranges::count(view().shards(), shard.server, &ViewShard::server));
            const double fair = whole * view().server(shard.server)->weight / weights / count;
            if (whole > 0) worst = std::max(worst, std::abs(held[shard.number] / fair - 1));
        }
        return worst;
    }

    Random random_;
    View newest_;
    View settled_ = newest_;  ///< the newest one by which somebody serves
    Membership membership_;
    bool are_stuck_ = false;
    uint64_t next_id_ = 1000;
    uint64_t last_ticket_ = 0;
    uint32_t next_table_ = 0;
    uint64_t admitted_workers_ = 0;
    double moved_ = 0;
    std::set<uint64_t> pending_servers_;
    std::set<uint64_t> pending_workers_;
    std::set<uint32_t> servers_;
    std::set<uint32_t> servers_ever_;
    std::set<uint32_t> leavers_;
    std::set<uint32_t> ended_;
    std::set<uint32_t> kept_;
    std::set<uint32_t> tables_;
    std::set<std::pair<uint64_t, uint32_t>> reported_;
    std::map<uint32_t, Shard> shards_;
    std::map<uint32_t, Worker> workers_;
    std::vector<std::function<void()>> to_manager_;
};

}  // namespace weir::testing

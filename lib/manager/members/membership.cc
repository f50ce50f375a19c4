// SPDX-License-Identifier: Apache-2.0
#include "lib/manager/members/membership.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "lib/base/check.h"
#include "lib/base/counted.h"
#include "lib/ring/copy_order.h"

namespace weir {
namespace {

std::vector<uint32_t> as_list(const std::set<uint32_t>& numbers) {
    return {numbers.begin(), numbers.end()};
}

/// `after`, which several steps made out of `before`, as a single step.
View as_one_step(const View& before, const View& after) {
    ViewData data = after.data();
    data.epoch = before.epoch() + 1;
    for (ViewShard& shard : data.shards)
        shard.since = std::min(shard.since, data.epoch);
    for (ViewSegment& segment : data.segments)
        segment.learner.named = std::min(segment.learner.named, data.epoch);
    return std::move(View::make(std::move(data))).value();
}

double share_of(const View& view, size_t segment) {
    return static_cast<double>(position_count(view.data().segments, segment)) * 0x1p-64;
}

/// Whether the segment is to get another primary.
bool is_moving(const ViewSegment& segment) {
    return segment.has_learner() && segment.learner.replaces == segment.primary;
}

bool has_learners(const View& view) {
    return std::ranges::any_of(view.segments(), &ViewSegment::has_learner);
}

/// The shards that are in both views and are primary of less in the later one. Ascending.
std::vector<uint32_t> losers_between(const View& before, const View& after) {
    std::set<uint32_t> losers;
    const std::vector<ViewSegment>& old = before.data().segments;
    size_t i = 0;
    for (const ViewSegment& segment : after.segments()) {
        while (i + 1 < old.size() && old[i + 1].first <= segment.first)
            ++i;
        const uint32_t was = old[i].primary;
        if (was != segment.primary && after.shard(was) != nullptr) losers.insert(was);
    }
    return as_list(losers);
}

}  // namespace

Membership::Membership(View first, const MembershipOptions& options)
    : options_(options), view_(std::move(first)), is_plan_due_(options.backup_count > 0) {
    difference_ = std::make_shared<const ViewChange>(whole_view(view_));
    learning_.follow(view_, view_);
    send_to_the_rest();
}

Status Membership::join_server(uint64_t ticket, const NewServer& server) {
    return joins_.add_server(view_, ticket, server);
}

Status Membership::join_worker(uint64_t ticket, const NewWorker& worker) {
    return joins_.add_worker(view_, tables_.size(), ticket, worker);
}

void Membership::withdraw(uint64_t ticket) {
    joins_.withdraw(ticket);
}

Status Membership::leave_server(uint32_t server) {
    if (view_.server(server) == nullptr || dead_.contains(server)) {
        return Error(Errc::kNotFound,
                     fmt::format("server {} is not in this job (view {})", server, view_.epoch()));
    }
    if (leaving_.contains(server)) return {};
    const std::vector<uint32_t> others = staying(view_);
    if (others == std::vector{server}) {
        return Error(Errc::kUnavailable,
                     fmt::format("server {} cannot leave: no other server stays that could take "
                                 "over what it holds; let one join first",
                                 server));
    }
    const size_t copies = options_.backup_count + size_t{1};
    if (others.size() <= copies && options_.backup_count > 0) {
        return Error(Errc::kUnavailable,
                     fmt::format("server {} cannot leave: each segment has {} copies, and {} "
                                 "would be left for them; let one join first",
                                 server, copies, counted(others.size() - 1, "server")));
    }
    leaving_.insert(server);
    full_.clear();  // they are asked again
    is_plan_due_ = true;
    return {};
}

void Membership::server_died(uint32_t server) {
    if (view_.server(server) == nullptr) return;
    leaving_.erase(server);
    dead_.insert(server);
}

void Membership::worker_left(uint32_t worker, std::span<const ViewWithdrawal> withdrawn) {
    if (view_.worker(worker) == nullptr) return;
    gone_workers_.insert(worker);
    silent_workers_.insert(worker);
    std::ranges::copy_if(withdrawn, std::back_inserter(withdrawals_),
                         [&](const auto& one) { return tables_.contains(one.table); });
}

void Membership::worker_died(uint32_t worker) {
    if (view_.worker(worker) == nullptr) return;
    silent_workers_.insert(worker);
    if (options_.on_worker_loss != OnWorkerLoss::kStop) gone_workers_.insert(worker);
}

void Membership::worker_gave_up(uint32_t worker) {
    if (options_.on_worker_loss != OnWorkerLoss::kReassign) return worker_died(worker);
    if (view_.worker(worker) != nullptr) silent_workers_.insert(worker);
}

void Membership::add_table(uint32_t table) {
    has_had_tables_ = true;
    if (!tables_.insert(table).second || !first_iterations_.is_open()) return;
    first_iterations_.add_table(table);
    actions_.emplace_back(
        AskFirstIteration{view_.epoch(), first_iterations_.shards(), std::vector{table}});
}

void Membership::remove_table(uint32_t table) {
    tables_.erase(table);
}

Status Membership::stopped(uint32_t shard, uint64_t epoch) {
    WEIR_TRY(check_shard(shard));
    if (epoch > view_.epoch()) {
        return Error(Errc::kProtocol, fmt::format("shard {} has stopped for view {}; the newest is "
                                                  "{}",
                                                  shard, epoch, view_.epoch()));
    }
    if (epoch == view_.epoch()) awaited_.erase(shard);
    return {};
}

Status Membership::learner_complete(uint32_t shard, const LearnerReport& report) {
    WEIR_TRY(check_shard(shard));
    WEIR_ASSIGN(const bool counts, is_of_view(view_, shard, report));
    if (counts) complete_[report.first] = report;
    return {};
}

Status Membership::learner_refused(uint32_t shard, const LearnerReport& report) {
    WEIR_TRY(check_shard(shard));
    const ViewShard* const learner = view_.shard(report.shard);
    if (learner == nullptr) return {};
    const View& view = view_of(shard);
    const ViewSegment& segment = view.segments()[view.segment_index(report.first)];
    const bool is_backup = segment.first == report.first && segment.primary == shard &&
                           std::ranges::count(segment.backups, report.shard) > 0;
    if (is_backup) {
        refusing_.push_back(report);
    } else {
        WEIR_ASSIGN(const bool counts, is_of_view(view, shard, report));
        if (!counts) return {};
    }
    full_.insert(learner->server);
    is_plan_due_ = true;
    cannot_stop(shard);
    return {};
}

Status Membership::learner_unreachable(uint32_t shard, const LearnerReport& report) {
    WEIR_TRY(check_shard(shard));
    const ViewShard* const primary = view_.shard(shard);
    const ViewShard* const learner = view_.shard(report.shard);
    // One of a view before.
    if (primary == nullptr || learner == nullptr || view_of(shard).owner(report.first) != shard)
        return {};
    refusing_.push_back(report);
    apart_.insert(std::minmax(primary->server, learner->server));
    is_plan_due_ = true;
    cannot_stop(shard);
    return {};
}

/// The one by which the shard has what it is primary of: one that has not stopped has all that it had.
const View& Membership::view_of(uint32_t shard) const {
    return awaited_.contains(shard) ? before_ : view_;
}

/// A copy does not follow the shard. If it is to give something away, it would wait for that copy, and
/// everybody for it.
void Membership::cannot_stop(uint32_t shard) {
    if (awaited_.contains(shard)) keeping_.insert(shard);
}

void Membership::try_those_apart() {
    is_plan_due_ |= !apart_.empty();
    apart_.clear();
}

/// False: the learner was given up, or has its role.
Result<bool> Membership::is_of_view(const View& view, uint32_t shard,
                                    const LearnerReport& report) const {
    const ViewSegment& segment = view.segments()[view.segment_index(report.first)];
    if (report.named > view_.epoch()) {
        return Error(Errc::kProtocol, fmt::format("shard {} reports a learner of view {}; the "
                                                  "newest is {}",
                                                  shard, report.named, view_.epoch()));
    }
    const bool is_current = segment.first == report.first && segment.has_learner() &&
                            segment.learner.shard == report.shard &&
                            segment.learner.named == report.named;
    if (!is_current) return false;
    if (shard != report.shard && shard != segment.primary) {
        return Error(Errc::kProtocol,
                     fmt::format("shard {} reports that shard {} has learned segment {:#x}, with "
                                 "which it has nothing to do",
                                 shard, report.shard, report.first));
    }
    return true;
}

Status Membership::first_iteration(uint32_t shard, uint64_t epoch, uint32_t table, uint64_t first) {
    WEIR_TRY(check_shard(shard));
    return first_iterations_.take(shard, epoch, table, first);
}

std::vector<MembershipAction> Membership::decide() {
    do {
        if (!losers_.empty() && !(dead_.empty() && keeping_.empty())) revise();
        if (!awaited_.empty()) break;
        if (!losers_.empty()) send_to_the_rest();
    } while (make_next_view());
    return std::exchange(actions_, {});
}

bool Membership::may_put_out(uint32_t server, const std::set<uint32_t>& silent) const {
    if (view_.server(server) == nullptr) return false;
    if (can_lose_nothing() && std::ranges::any_of(staying(view_), [&](uint32_t other) {
            return other != server && !silent.contains(other);
        }))
        return true;
    const bool is_handing_over = !losers_.empty();
    for (const ViewSegment& segment : view_.segments()) {
        const ViewSegment& was = before_.segments()[before_.segment_index(segment.first)];
        const bool has_moved = is_handing_over && was.primary != segment.primary &&
                               view_.shard(was.primary) != nullptr;
        // Until the view is released, who had the segment has it, and the others do not serve.
        if (is_last_copy(has_moved ? before_ : view_, has_moved ? was : segment, server, silent))
            return false;
    }
    return true;
}

/// Whether the server has a copy of the segment, and all others that have one are silent or dead.
bool Membership::is_last_copy(const View& view, const ViewSegment& segment, uint32_t server,
                              const std::set<uint32_t>& silent) const {
    bool has_copy = false;
    bool has_other = false;
    const auto look_at = [&](uint32_t shard) {
        const ViewShard* const is = shard == kNoShard ? nullptr : view.shard(shard);
        if (is == nullptr) return;
        has_copy |= is->server == server;
        has_other |= is->server != server && !silent.contains(is->server) &&
                     !dead_.contains(is->server) && view_.server(is->server) != nullptr;
    };
    look_at(segment.primary);
    std::ranges::for_each(segment.backups, look_at);
    return has_copy && !has_other;
}

/// After decide(), which names a learner for all that is to be copied now.
bool Membership::is_at_rest() const {
    return !is_plan_due_ && !has_learners(view_);
}

MoveProgress Membership::progress() const {
    MoveProgress progress = done_;
    for (size_t i = 0; i < view_.segments().size(); ++i) {
        if (!is_moving(view_.segments()[i])) continue;
        ++progress.segments_to_move;
        progress.share_to_move += share_of(view_, i);
        if (!complete_.contains(view_.segments()[i].first)) continue;
        ++progress.segments_complete;
        progress.share_complete += share_of(view_, i);
    }
    return progress;
}

/// False: nothing is to change now. The dead and those who have left come first: others wait for
/// them. While a joiner's first iteration is asked for, only those make a view, because every view
/// makes the answers void.
bool Membership::make_next_view() {
    if (fill_vacancies()) return true;
    if (!dead_.empty() || !gone_workers_.empty()) return change_members();
    if (first_iterations_.is_open()) {
        if (first_iterations_.is_complete() && joins_.has_workers()) {
            admit_workers();
            return true;
        }
        if (joins_.has_workers() && may_ask_) return false;
        give_up_question();
    }
    // Who takes part in no iteration needs no answers.
    const bool needs_answers = joins_.wants_iterations() && !tables_.empty();
    const bool can_ask =
        (may_ask_ || !needs_answers) && joins_.has_workers() && !view_.shards().empty();
    if (drop_refusing()) return true;
    const bool is_changed =
        !(can_ask && is_asking_next_) && ((!holds_moves_ && finish_learners()) || change_members());
    if (is_changed) return true;
    if (!can_ask) return false;
    if (asks_in_next_ && needs_answers) {
        publish(as_is());
        return true;
    }
    ask();
    return first_iterations_.is_complete();
}

/// Those who are dead by now get nothing; if nobody else is there, all is lost. Who is leaving hands over
/// later.
bool Membership::fill_vacancies() {
    if (!has_vacancies_) return false;
    std::vector<uint32_t> live;
    for (const ViewServer& server : view_.servers()) {
        if (!dead_.contains(server.number)) live.push_back(server.number);
    }
    if (live.empty()) return false;
    has_vacancies_ = false;
    publish(with_primaries(view_, live));
    return true;
}

/// Their primaries' answers wait for them until then.
bool Membership::drop_refusing() {
    std::optional<View> next = without_learners(view_, std::exchange(refusing_, {}));
    if (!next) return false;
    publish(std::move(*next));
    return true;
}

bool Membership::finish_learners() {
    std::vector<LearnerReport> reports;
    reports.reserve(complete_.size());
    for (const auto& [first, report] : complete_)
        reports.push_back(report);
    std::optional<View> next =
        finish_moves(view_, reports_to_finish(view_, reports, as_list(full_)));
    if (!next) return false;
    bool is_any_left = false;
    for (size_t i = 0; i < next->segments().size(); ++i) {
        is_any_left |= next->segments()[i].has_learner();
        if (!view_.segments()[i].has_learner() || next->segments()[i].has_learner()) continue;
        if (!is_moving(view_.segments()[i])) {
            ++done_.copies_made;
            continue;
        }
        ++done_.segments_moved;
        done_.share_moved += share_of(view_, i);
    }
    is_plan_due_ |= !is_any_left;  // what one plan left over
    publish(std::move(*next));
    return true;
}

/// All that takes a primary role from nobody alive, in one view.
bool Membership::change_members() {
    const bool has_dead = !dead_.empty();
    View next = without_the_gone(view_);
    std::vector<uint32_t> ended;
    for (const uint32_t server : leaving_) {
        if (next.holds_nothing(server)) ended.push_back(server);
    }
    if (!ended.empty()) next = without_servers(next, ended);
    for (const uint32_t server : ended)
        leaving_.erase(server);
    WEIR_CHECK(dead_.empty() && gone_workers_.empty());
    next = with_joiners(std::move(next));
    // A death takes learners away. What they learned may be cut only in a later view.
    if (!has_dead) next = with_plan(std::move(next));
    if (next.epoch() == view_.epoch()) return false;
    publish(as_one_step(view_, next));
    for (const uint32_t server : ended)
        actions_.emplace_back(EndServer{server});
    return true;
}

/// Without dead servers, and workers that have left.
View Membership::without_the_gone(const View& view) {
    View next = view;
    if (!dead_.empty()) {
        next = without_servers(next, as_list(dead_));
        std::vector<PositionRange> lost;
        double share = 0;
        for (size_t i = 0; i < next.segments().size(); ++i) {
            if (next.segments()[i].primary != kNoShard) continue;
            if (view.segments()[i].primary == kNoShard && !has_vacancies_) continue;
            lost.push_back(next.range(i));
            share += share_of(next, i);
        }
        has_vacancies_ = !lost.empty() && can_lose_nothing() && !next.shards().empty();
        if (!lost.empty() && !has_vacancies_)
            actions_.emplace_back(LostSegments{as_list(dead_), PositionSet(lost), share});
        std::erase_if(full_, [&](uint32_t server) { return dead_.contains(server); });
        dead_.clear();
        is_plan_due_ = true;
    }
    if (!gone_workers_.empty()) {
        ViewData data = next.data();
        ++data.epoch;
        const auto is_gone = [&](uint32_t worker) { return gone_workers_.contains(worker); };
        std::erase_if(data.workers, [&](const ViewWorker& w) { return is_gone(w.number); });
        std::erase_if(data.members, [&](const ViewMember& m) { return is_gone(m.worker); });
        put_withdrawals(data);
        next = std::move(View::make(std::move(data))).value();
        gone_workers_.clear();
    }
    return next;
}

/// Those of the workers that have just left. The oldest make room: they were closed long ago.
void Membership::put_withdrawals(ViewData& data) {
    std::vector<ViewWithdrawal>& list = data.withdrawals;
    list.insert(list.end(), withdrawals_.begin(), withdrawals_.end());
    withdrawals_.clear();
    std::ranges::sort(list, {}, [](const ViewWithdrawal& one) { return view_key(one); });
    if (list.size() > ViewLimits::kWithdrawalsMax) {
        const size_t excess = list.size() - ViewLimits::kWithdrawalsMax;
        list.erase(list.begin(), list.begin() + static_cast<ptrdiff_t>(excess));
    }
}

/// With the servers that ask to join. They hold nothing yet.
View Membership::with_joiners(View view) {
    for (const JoinQueue::Server& join : joins_.take_servers()) {
        const uint32_t first_shard = view.data().next_shard;
        Result<View> next = with_server(view, join.server);
        if (!next) {
            actions_.emplace_back(RefuseJoin{join.ticket, next.error()});
            continue;
        }
        actions_.emplace_back(AdmitServer{join.ticket, view.data().next_server, first_shard});
        view = std::move(*next);
        full_.clear();
        is_plan_due_ = true;
    }
    return view;
}

View Membership::with_plan(View view) {
    if (!is_plan_due_) return view;
    is_plan_due_ = false;
    const std::vector<uint32_t> live = staying(view);
    const bool can_leave =
        std::ranges::any_of(live, [&](uint32_t s) { return !full_.contains(s); });
    const bool has_too_few = options_.backup_count > 0 && live.size() <= options_.backup_count;
    if ((!can_leave || has_too_few) && !leaving_.empty()) {
        keep_leavers(as_list(leaving_), live.empty()  ? "are dead"
                                        : has_too_few ? "are fewer than each segment has copies"
                                                      : "have no memory for it");
    }
    View next = planned(view);
    if (!leaving_.empty() && keep_stuck_leavers(next)) next = planned(view);
    if (next.epoch() != view.epoch() && !has_learners(view)) done_ = {};
    return next;
}

View Membership::planned(const View& view) const {
    const Plan what = plan(view, staying(view), options_.backup_count, as_list(full_), apart_);
    return what.empty() ? view : begin_moves(view, what);
}

/// Who is leaving but would never end, because nothing moves any more and it still holds something,
/// must stay. That is so if all who have no copy of that yet are full.
bool Membership::keep_stuck_leavers(const View& next) {
    if (has_learners(next) || !apart_.empty()) return false;
    std::vector<uint32_t> stuck = as_list(leaving_);
    std::erase_if(stuck, [&](uint32_t server) { return next.holds_nothing(server); });
    if (stuck.empty()) return false;
    keep_leavers(stuck, full_.empty() ? "have copies of it already"
                                      : "have no memory for it, or copies of it already");
    return true;
}

/// Those who were to take over cannot. Who was leaving must stay.
void Membership::keep_leavers(const std::vector<uint32_t>& servers, std::string_view why) {
    for (const uint32_t server : servers) {
        leaving_.erase(server);
        actions_.emplace_back(KeepServer{
            server, Error(Errc::kUnavailable,
                          fmt::format("server {} stays: the servers that were to take over what "
                                      "it holds {}; let one join, and ask again",
                                      server, why))});
    }
}

void Membership::ask() {
    is_asking_next_ = false;
    std::vector<uint32_t> shards;
    for (const ViewShard& shard : view_.shards())
        shards.push_back(shard.number);
    const std::vector<uint32_t> tables =
        joins_.wants_iterations() ? as_list(tables_) : std::vector<uint32_t>{};
    WEIR_CHECK(!first_iterations_.is_open() && !shards.empty());
    first_iterations_.ask(view_.epoch(), shards, tables);
    if (first_iterations_.is_complete()) return;
    actions_.emplace_back(AskFirstIteration{view_.epoch(), std::move(shards), tables});
}

/// The shards are told to go on. A view would do that, too, but a shard that is out of reach does not
/// get it, and would keep workers that have it waiting. Answers that are late are told from those to the
/// next question by the epoch.
void Membership::give_up_question() {
    actions_.emplace_back(AskFirstIteration{view_.epoch(), first_iterations_.shards(), {}});
    first_iterations_.forget();
    asks_in_next_ = true;
}

/// The next view, in which nothing has changed.
View Membership::as_is() const {
    ViewData data = view_.data();
    ++data.epoch;
    return std::move(View::make(std::move(data))).value();
}

/// Everybody who wants to join does so now: all shards hold still.
void Membership::admit_workers() {
    WEIR_CHECK(first_iterations_.is_complete());
    ViewData data = view_.data();
    ++data.epoch;
    for (const JoinQueue::Worker& join : joins_.take_workers()) {
        const size_t tables = join.worker.has_iterations ? tables_.size() : 0;
        if (data.members.size() + tables > ViewLimits::kMembersMax) {
            actions_.emplace_back(RefuseJoin{
                join.ticket,
                Error(Errc::kBusy, fmt::format("the job has too many tables ({}) for one more "
                                               "worker",
                                               tables_.size()))});
            continue;
        }
        const uint32_t number = data.next_worker++;
        actions_.emplace_back(AdmitWorker{join.ticket, number});
        data.workers.push_back(
            {number, join.worker.rank, join.worker.has_iterations ? 1 : kNoIteration});
        if (!join.worker.has_iterations) continue;
        for (const uint32_t table : tables_)
            data.members.push_back({number, table, first_iterations_.first(table)});
    }
    publish(std::move(View::make(std::move(data))).value());
}

/// First to those who lose something; to the others when they have stopped.
void Membership::publish(View next) {
    WEIR_CHECK(awaited_.empty() && losers_.empty());  // all have the view before
    WEIR_CHECK(next.epoch() == view_.epoch() + 1);
    before_ = std::exchange(view_, std::move(next));
    difference_ = std::make_shared<const ViewChange>(view_change(before_, view_));
    losers_ = losers_between(before_, view_);
    awaited_ = {losers_.begin(), losers_.end()};
    learning_.follow(before_, view_);
    forget_void_answers();
    losers_.empty() ? send_to_the_rest() : send(losers_, {});
}

/// Servers have died while only its losers have the view. What one of them was to get goes back to
/// the shard that had it: that still has all of it. So does what one of them was to give and has not
/// handed over, because nobody else has all of it: it is lost with its server. And so does what a loser
/// cannot hand over, because a copy does not follow it: that copy is given up in the next view.
void Membership::revise() {
    ViewData data = view_.data();
    ++data.epoch;
    for (ViewSegment& segment : data.segments) {
        const uint32_t was = before_.owner(segment.first);
        if (was == segment.primary || view_.shard(was) == nullptr) continue;
        const bool stays = is_dead_shard(was) ? awaited_.contains(was) : keeping_.contains(was);
        if (!is_dead_shard(segment.primary) && !stays) continue;
        segment.primary = was;
        put_backups_in_order(segment);
    }
    keeping_.clear();
    for (ViewShard& shard : data.shards) {
        if (shard.since > before_.epoch()) shard.since = data.epoch;
    }
    WEIR_CHECK(!losers_.empty());
    const View first = view_;
    view_ = as_one_step(first, without_the_gone(std::move(View::make(std::move(data))).value()));
    difference_ = std::make_shared<const ViewChange>(view_change(before_, view_));
    std::erase_if(losers_, [&](uint32_t loser) { return view_.shard(loser) == nullptr; });
    const std::vector<uint32_t> awaited = losers_between(before_, view_);
    awaited_ = {awaited.begin(), awaited.end()};
    learning_.follow(first, view_);
    forget_void_answers();
    if (losers_.empty()) return send_to_the_rest();
    actions_.emplace_back(
        SendView{std::make_shared<const ViewChange>(view_change(first, view_)), losers_, {}});
}

/// There is a new view: what was asked and reported for those before counts no more.
void Membership::forget_void_answers() {
    first_iterations_.forget();
    asks_in_next_ = false;
    is_asking_next_ = joins_.has_workers();
    std::erase_if(complete_, [&](const auto& entry) {
        const LearnerReport& report = entry.second;
        const ViewSegment& segment = view_.segments()[view_.segment_index(report.first)];
        return segment.first != report.first || segment.learner.shard != report.shard ||
               segment.learner.named != report.named;
    });
    std::erase_if(silent_workers_, [&](uint32_t w) { return view_.worker(w) == nullptr; });
}

void Membership::send_to_the_rest() {
    WEIR_CHECK(awaited_.empty());  // whoever loses something has stopped
    std::vector<uint32_t> shards;
    for (const ViewShard& shard : view_.shards()) {
        if (!std::ranges::binary_search(losers_, shard.number)) shards.push_back(shard.number);
    }
    std::vector<uint32_t> workers;
    for (const ViewWorker& worker : view_.workers())
        workers.push_back(worker.number);
    if (!losers_.empty()) actions_.emplace_back(ReleaseLosers{view_.epoch(), losers_});
    losers_.clear();
    send(shards, workers);
}

/// The difference to those who have the view before, the whole view to those who are new.
void Membership::send(const std::vector<uint32_t>& shards, const std::vector<uint32_t>& workers) {
    SendView to_old{.change = difference_, .shards = {}, .workers = {}};
    SendView to_new{.change = nullptr, .shards = {}, .workers = {}};
    for (const uint32_t shard : shards) {
        if (is_dead_shard(shard)) continue;
        (before_.shard(shard) != nullptr ? to_old : to_new).shards.push_back(shard);
    }
    for (const uint32_t worker : workers) {
        if (silent_workers_.contains(worker)) continue;
        (before_.worker(worker) != nullptr ? to_old : to_new).workers.push_back(worker);
    }
    if (!to_old.shards.empty() || !to_old.workers.empty()) actions_.emplace_back(std::move(to_old));
    if (to_new.shards.empty() && to_new.workers.empty()) return;
    to_new.change = std::make_shared<const ViewChange>(whole_view(view_));
    actions_.emplace_back(std::move(to_new));
}

/// A shard that is gone may still be heard of.
Status Membership::check_shard(uint32_t shard) const {
    if (shard < view_.data().next_shard) return {};
    return Error(Errc::kProtocol, fmt::format("a message from shard {}, which was never in this "
                                              "job",
                                              shard));
}

/// The servers that neither leave nor are dead, ascending.
std::vector<uint32_t> Membership::staying(const View& view) const {
    std::vector<uint32_t> numbers;
    for (const ViewServer& server : view.servers()) {
        if (!leaving_.contains(server.number) && !dead_.contains(server.number))
            numbers.push_back(server.number);
    }
    return numbers;
}

bool Membership::is_dead_shard(uint32_t shard) const {
    const ViewShard* const is = view_.shard(shard);
    return is != nullptr && dead_.contains(is->server);
}

}  // namespace weir

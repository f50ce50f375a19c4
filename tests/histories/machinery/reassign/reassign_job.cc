// SPDX-License-Identifier: Apache-2.0
#include "tests/histories/machinery/reassign/reassign_job.h"

#include <algorithm>
#include <utility>

#include <doctest/doctest.h>
#include <fmt/core.h>

namespace weir::test {
namespace {

constexpr size_t kReassignServersMax = 5;

}  // namespace

void ReassignJob::run() {
    const uint64_t turns = 1500 + random_.below(2500);
    const uint64_t before = noted_ = newest();
    workers_.live();
    for (uint64_t turn = 0, all = 0; turn < turns && all < 20 * turns; ++all) {
        if (!is_waiting()) ++turn;
        if (random_.below(is_waiting() ? 1200 : 60) == 0) wish();
        live();
        (void)cluster_.step();
    }
    events_.add("no more wishes");
    is_draining_ = true;
    deaths_.clear();
    workers_.drain();
    managers_.drain();
    if (!checkpoint_) ask_for_checkpoint();
    const bool over = cluster_.run_until([&] {
        live();
        return is_at_rest();
    });
    INFO(events_.text());
    INFO(text());
    REQUIRE(over);
    workers_.finish();
    cluster_.run_idle(2000);  // who was asked to leave has left, or cannot
    leaving_.clear();
    tables_.check_all(cluster_, workers_.some_that_lives());
    note_checkpoint();
    if (noted_ != before && random_.below(2) == 0) return;
    ask_for_checkpoint();
    REQUIRE(checkpoint_->must_succeed);
    REQUIRE(cluster_.run_until([&] {
        settle_checkpoint();
        return !checkpoint_;
    }));
}

void ReassignJob::wish() {
    if (random_.below(3) == 0) return ask_for_checkpoint();
    if (cluster_.shape().managers > 1 && random_.below(10) == 0) {
        managers_.wish();
        ++troubles_;
        disturbed_ns_ = cluster_.clock.now_ns();
        return;
    }
    switch (random_.below(8)) {
        case 0: return workers_.add();
        case 1: return workers_.remove(checkpoint_ ? checkpoint_->worker : ~uint32_t{0});
        case 2: return change_servers();
        case 3: return random_.below(3) == 0 ? cut() : workers_.add();
        default: return wish_death();
    }
}

/// Of workers, of servers, of both at one instant, or of one soon after the other.
void ReassignJob::wish_death() {
    const uint32_t servers = 1 + static_cast<uint32_t>(random_.below(cluster_.shape().replicas));
    const uint32_t workers = random_.below(4) == 0 ? 2 : 1;
    const uint64_t turns = random_.below(60);
    switch (random_.below(5)) {
        case 0: {
            const bool hangs = cluster_.shape().work_lease_ns > 0 && random_.below(4) == 0;
            deaths_.push_back({turns, workers, 0, false, hangs});
            break;
        }
        case 1: deaths_.push_back({turns, 0, servers}); break;
        case 2: {
            const bool is_worker_first = random_.below(2) == 0;
            deaths_.push_back(
                {turns, is_worker_first ? workers : 0, is_worker_first ? 0 : servers});
            deaths_.push_back({turns + random_.below(40), is_worker_first ? 0 : workers,
                               is_worker_first ? servers : 0});
            break;
        }
        default:
            deaths_.push_back(
                {turns, workers, servers, cluster_.shape().managers > 1 && random_.below(2) == 0});
    }
    if (random_.below(2) == 0) ask_for_checkpoint();
}

void ReassignJob::live() {
    // The manager is to learn something that takes a lease, or life lines are made anew.
    const bool waits =
        !dead_.empty() || !gone_.empty() || !managers_.is_at_rest() || !cluster_.has_life_line(0);
    turns_waiting_ = waits ? turns_waiting_ + 1 : 0;
    workers_.set_waiting(is_waiting());
    take_note_of_deaths();
    managers_.live();
    ++turn_;
    std::erase_if(deaths_, [&](Death& death) {
        if (death.turns-- > 0) return false;
        if (die(death) || death.tries-- == 0) return true;
        death.turns = random_.below(60);
        return false;
    });
    check_losses();
    workers_.live();
    settle_checkpoint();
}

void ReassignJob::take_note_of_deaths() {
    const View& view = cluster_.managers_view();
    const auto is_gone = [&](uint32_t server) { return view.server(server) == nullptr; };
    std::erase_if(dead_, [&](uint32_t server) {
        if (is_gone(server)) events_.add("the death of server {} is known", server);
        return is_gone(server);
    });
    std::erase_if(leaving_, is_gone);
    std::erase_if(gone_, [&](uint32_t worker) {
        const bool is_there =
            std::ranges::find(view.workers(), worker, &ViewWorker::number) != view.workers().end();
        if (!is_there) events_.add("the death of the job's worker {} is known", worker);
        return !is_there;
    });
    if (joining_.empty()) return;
    for (const Host& host : hosts_of_servers(view))
        joining_.erase(host.host);
    for (size_t i = 0; i < cluster_.shards.size(); ++i) {
        const auto& shard = cluster_.shards[i];
        if (shard == nullptr || shard->finished()) joining_.erase(cluster_.host_of_shard(i));
    }
}

/// Those that live and that the manager has.
std::vector<ReassignJob::Host> ReassignJob::hosts_of_servers(const View& view) const {
    std::vector<Host> hosts;
    for (const ViewShard& listed : view.shards()) {
        const Shard* const shard = cluster_.find_shard(listed);
        for (size_t i = 0; shard != nullptr && i < cluster_.shards.size(); ++i) {
            const uint32_t host = cluster_.host_of_shard(i);
            const bool is_new = std::ranges::find(hosts, host, &Host::host) == hosts.end();
            if (cluster_.shards[i].get() == shard && is_new) hosts.push_back({host, listed.server});
        }
    }
    return hosts;
}

bool ReassignJob::has_all_copies(const View& view) const {
    const size_t wanted = std::min<size_t>(cluster_.shape().replicas, view.servers().size() - 1);
    return std::ranges::all_of(view.segments(), [&](const ViewSegment& segment) {
        return segment.backup_count() >= wanted && !segment.has_learner();
    });
}

/// As many of them as there are copies; none before all copies of those that died before are made again.
std::vector<ReassignJob::Host> ReassignJob::servers_that_may_fail() const {
    constexpr uint64_t kAsksAgainNs = 300 * kMillisecond;
    const View view = cluster_.managers_view();
    if (!dead_.empty() || view.servers().size() < 2 || !has_all_copies(view)) return {};
    if (disturbed_ns_ != 0 && cluster_.clock.now_ns() < disturbed_ns_ + kAsksAgainNs) return {};
    std::vector<Host> hosts = hosts_of_servers(view);
    const bool have_lines = std::ranges::all_of(hosts, [&](const Host& host) {
        return cluster_.has_life_line(host.host) && cluster_.has_reached_manager(host.host);
    });
    return have_lines && hosts.size() == view.servers().size() ? hosts : std::vector<Host>();
}

uint32_t ReassignJob::kill_servers(std::vector<Host> hosts, uint32_t count) {
    if (hosts.empty()) return 0;
    count = std::min(count, static_cast<uint32_t>(hosts.size() - 1));
    for (uint32_t killed = 0; killed < count; ++killed) {
        const size_t at = random_.below(hosts.size());
        const Host host = hosts[at];
        hosts.erase(hosts.begin() + static_cast<std::ptrdiff_t>(at));
        events_.add("server {} dies", host.server);
        ++counts_.servers_killed;
        dead_.insert(host.server);
        cluster_.kill_host(host.host);
        for (size_t i = 0; i < cluster_.shards.size(); ++i) {
            if (cluster_.host_of_shard(i) == host.host) cluster_.shards[i].reset();
        }
    }
    troubles_ += count;
    return count;
}

/// Its death is proved by its life line; if that hangs, or the manager dies with it, by the lease of its work.
bool ReassignJob::kill_worker(bool hangs) {
    const uint32_t number =
        workers_.some_that_may_die(checkpoint_ ? checkpoint_->worker : ~uint32_t{0});
    if (number == ~uint32_t{0}) return false;
    const uint32_t host = cluster_.host_of_worker(number);
    if (!cluster_.has_reached_manager(host)) return false;
    ClientCore* const client = cluster_.workers[number].get();
    if (hangs && !client->ready()) return false;
    events_.add("worker {} {}", number, hangs ? "hangs" : "dies");
    if (client->ready()) gone_.insert(client->worker());
    workers_.note_death(number);
    ++workers_died_;
    if (hangs) {
        ++counts_.workers_hung;
        cluster_.stopped.insert(client);
        cluster_.stopped_hosts.insert(host);
        return true;
    }
    cluster_.kill_host(host);
    cluster_.workers[number].reset();
    return true;
}

bool ReassignJob::die(const Death& death) {
    std::vector<Host> may_fail = servers_that_may_fail();
    if (!cluster_.has_life_line(0) || (death.servers > 0 && may_fail.empty())) return false;
    const bool with_manager = death.with_manager && managers_.kill_leader();
    if (with_manager) disturbed_ns_ = cluster_.clock.now_ns();
    const uint32_t servers = kill_servers(std::move(may_fail), death.servers);
    uint32_t workers = 0;
    for (uint32_t i = 0; i < death.workers; ++i)
        workers += kill_worker(death.hangs) ? 1 : 0;
    note_deaths(workers, servers);
    if (with_manager && servers > 0 && workers > 0) ++counts_.with_managers;
    if (servers > 0 && random_.below(2) == 0) change_servers();
    if (workers > 0 && random_.below(2) == 0) workers_.add();
    return true;
}

void ReassignJob::note_deaths(uint32_t workers, uint32_t servers) {
    constexpr uint64_t kSoon = 60;
    if (workers > 0 && servers > 0) {
        ++counts_.died_together;
    } else if ((workers > 0 && server_died_turn_ > 0 && turn_ < server_died_turn_ + kSoon) ||
               (servers > 0 && worker_died_turn_ > 0 && turn_ < worker_died_turn_ + kSoon)) {
        ++counts_.died_in_turn;
    }
    if (workers > 0) worker_died_turn_ = turn_;
    if (servers > 0) server_died_turn_ = turn_;
}

void ReassignJob::change_servers() {
    const View& view = cluster_.managers_view();
    const size_t count = view.servers().size() + joining_.size();
    if (count < kReassignServersMax && (count < 3 || random_.below(2) == 0)) {
        joining_.insert(
            cluster_.add_server({.shards = 1 + static_cast<uint32_t>(random_.below(2))}));
        events_.add("a server asks to join");
        ++counts_.servers_joined;
        ++troubles_;
        return;
    }
    const std::vector<Host> hosts = hosts_of_servers(view);
    if (hosts.empty() || !dead_.empty() || !managers_.is_at_rest()) return;
    const uint32_t server = hosts[random_.below(hosts.size())].server;
    const Status leaves = cluster_.leave_server(server);
    events_.add("server {} is asked to leave: {}", server, leaves ? "ok" : leaves.error().text());
    if (!leaves) return;
    leaving_.insert(server);
    ++counts_.servers_left;
    ++troubles_;
}

void ReassignJob::cut() {
    const auto host = static_cast<uint32_t>(random_.below(cluster_.host_count()));
    const bool is_stopped = cluster_.stopped_hosts.contains(host);
    const auto has_died = [&] {
        for (size_t i = 0; i < cluster_.shards.size(); ++i) {
            if (cluster_.host_of_shard(i) == host) return cluster_.shards[i] == nullptr;
        }
        for (uint32_t i = 0; i < cluster_.workers.size(); ++i) {
            if (cluster_.host_of_worker(i) == host) return cluster_.workers[i] == nullptr;
        }
        return true;
    };
    // Of one that is dead the proof would be lost.
    if (is_stopped || has_died() || !cluster_.has_reached_manager(host)) return;
    events_.add("the connections of host {} to the manager break", host);
    cluster_.cut_from_manager(host);
    disturbed_ns_ = cluster_.clock.now_ns();
    ++troubles_;
}

/// Nothing is under way that may make a checkpoint fail. Copies that were lost may be being made again.
bool ReassignJob::is_calm() const {
    return dead_.empty() && leaving_.empty() && joining_.empty() && !is_disturbed() &&
           managers_.is_at_rest();
}

/// Connections to a manager may still be being made anew.
bool ReassignJob::is_disturbed() const {
    constexpr uint64_t kDisturbedNs = 3 * kSecond;
    return disturbed_ns_ != 0 && cluster_.clock.now_ns() < disturbed_ns_ + kDisturbedNs;
}

void ReassignJob::ask_for_checkpoint() {
    if (checkpoint_) return;
    note_checkpoint();
    checkpoint_ = Checkpoint();  // not emplace(): clang 14 does not take it
    Checkpoint& asked = *checkpoint_;
    asked.worker = workers_.some_that_lives();
    asked_ = tables_.bounds_now();
    asked.before = newest();
    asked.must_succeed = is_calm();
    asked.lacks_copies = counts_.servers_killed > 0 && !has_all_copies(cluster_.managers_view());
    asked.workers_died = workers_died_;
    asked.troubles = troubles_;
    constexpr uint64_t kNever = 1'000'000 * kSecond;
    asked.call = cluster_.workers[asked.worker]->checkpoint(kNever);
    events_.add("worker {} asks for a checkpoint; must succeed {}", asked.worker,
                asked.must_succeed);
    ++counts_.checkpoints;
}

/// There may be a new one on the disk, whether its asker was told or not.
void ReassignJob::note_checkpoint() {
    if (newest() == noted_) return;
    noted_ = newest();
    bounds_ = asked_;
    tables_.note_most(bounds_);
    folder_.check_whole(noted_);
}

void ReassignJob::settle_checkpoint() {
    if (!checkpoint_ || !cluster_.workers[checkpoint_->worker]->done(checkpoint_->call)) return;
    const Checkpoint asked = *std::exchange(checkpoint_, std::nullopt);
    const auto number = cluster_.workers[asked.worker]->take_checkpoint(asked.call);
    INFO(events_.text());
    events_.add("the checkpoint has ended: {}", number ? "ok" : number.error().text());
    if (!number) {
        ++counts_.given_up;
        return check_failure(number.error(), asked);
    }
    REQUIRE(newest() >= *number);
    note_checkpoint();
    ++counts_.written;
    if (asked.workers_died != workers_died_) ++counts_.written_amid;
    if (asked.lacks_copies) ++counts_.written_again;
    if (asked.must_succeed && asked.troubles == troubles_) ++counts_.written_in_calm;
}

/// Servers or managers failed, came or went meanwhile; that workers did is no reason.
void ReassignJob::check_failure(const Error& why, const Checkpoint& asked) const {
    INFO(why.text());
    REQUIRE((why.code() == Errc::kBusy || why.code() == Errc::kCancelled ||
             why.code() == Errc::kPeerLost));
    REQUIRE_FALSE((asked.must_succeed && asked.troubles == troubles_));
    if (asked.before != 0) folder_.check_whole(asked.before);
}

void ReassignJob::check_losses() const {
    bool has_failed = cluster_.has_loss() || cluster_.is_managed_to_end();
    for (const auto& shard : cluster_.shards)
        has_failed |= shard != nullptr && shard->finished() && !shard->outcome();
    if (!has_failed) return;
    INFO(events_.text());
    INFO(text());
    FAIL("the job has lost parameters, or is over");
}

bool ReassignJob::is_at_rest() const {
    return workers_.is_at_rest() && dead_.empty() && gone_.empty() && joining_.empty() &&
           !checkpoint_ && managers_.is_at_rest() && !is_disturbed() &&
           has_all_copies(cluster_.managers_view());
}

/// Of the checkpoints; 0: none.
uint64_t ReassignJob::newest() const {
    const auto number = checkpoint::latest(*folder_.disk, folder_.folder);
    return number ? *number : 0;
}

std::string ReassignJob::text() const {
    std::string all = workers_.text();
    for (const uint32_t server : dead_)
        all += fmt::format("server {} is dead\n", server);
    for (const uint32_t worker : gone_)
        all += fmt::format("worker {} of the job is dead\n", worker);
    for (const uint32_t server : leaving_)
        all += fmt::format("server {} leaves\n", server);
    for (const uint32_t host : joining_)
        all += fmt::format("the server on host {} joins\n", host);
    const View& view = cluster_.managers_view();
    for (const ViewSegment& segment : view.segments()) {
        all += fmt::format("{:#x}: primary {}, {} backups, learner {}\n", segment.first,
                           segment.primary, segment.backup_count(), segment.learner.shard);
    }
    for (const auto& shard : cluster_.shards) {
        if (shard == nullptr || !shard->finished()) continue;
        all += fmt::format("{} has ended: {}\n", shard->name(),
                           shard->outcome() ? "ok" : shard->outcome().error().message());
    }
    return all +
           fmt::format("now {} us, disturbed {}, workers at rest {}, managers {}, checkpoint {}",
                       cluster_.clock.now_ns() / kMicrosecond, is_disturbed(),
                       workers_.is_at_rest(), managers_.is_at_rest(), checkpoint_.has_value());
}

}  // namespace weir::test

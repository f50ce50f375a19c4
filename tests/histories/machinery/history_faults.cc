// SPDX-License-Identifier: Apache-2.0
#include "tests/histories/machinery/history_faults.h"

#include <algorithm>
#include <array>

#include <doctest/doctest.h>

#include "tests/histories/machinery/history_shape.h"

namespace weir::test {
namespace {

constexpr size_t kServersMax = 4;  ///< beside backups

}  // namespace

void HistoryFaults::add_server() {
    if (cluster_.managers_view().servers().size() + joiners_.size() >=
        kServersMax + cluster_.shape().replicas) {
        return;
    }
    Joiner joiner;
    joiner.first_shard = cluster_.shards.size();
    joiner.host = cluster_.add_server({.shards = static_cast<uint32_t>(1 + random_.below(2))});
    constexpr std::array kFates{Fate::kDiesEarly, Fate::kDiesAsLearner, Fate::kDiesAsGainer,
                                Fate::kJoins,     Fate::kJoins,         Fate::kJoins};
    joiner.fate = kFates[random_.below(kFates.size())];
    // With backups, those who hold something die by HistoryDeaths.
    if (cluster_.shape().replicas > 0 && joiner.fate == Fate::kDiesAsGainer)
        joiner.fate = Fate::kJoins;
    joiner.turns = random_.below(joiner.fate == Fate::kDiesAsLearner ? 60 : 200);
    events_.add("a server asks to join, fate {}", static_cast<int>(joiner.fate));
    joiners_.push_back(joiner);
}

void HistoryFaults::remove_server() {
    const View view = cluster_.managers_view();
    const uint32_t server = some_server(random_, view);
    const bool asks_itself = !cluster_.managers.empty() && random_.below(2) == 0;
    const Status leaves = cluster_.leave_server(server, asks_itself);
    events_.add("server {} is asked to leave: {}", server, leaves ? "ok" : leaves.error().text());
    if (leaves) ++counts_.servers_left;
}

void HistoryFaults::kill_worker() {
    if (cluster_.workers.size() < 2 || cluster_.shape().on_worker_loss != OnWorkerLoss::kContinue) {
        return;
    }
    const auto number = static_cast<uint32_t>(1 + random_.below(cluster_.workers.size() - 1));
    if (!cluster_.has_life_line(cluster_.host_of_worker(number))) return;
    if (!workers_.kill(number)) return;
    cluster_.kill_host(cluster_.host_of_worker(number));
    dead_hosts_.insert(cluster_.host_of_worker(number));
    forget(cluster_.workers[number].get());
    cluster_.workers[number].reset();
}

void HistoryFaults::cut_from_manager() {
    const auto host = static_cast<uint32_t>(random_.below(cluster_.host_count()));
    // One that has never reached the manager would end. Of one that is dead the proof would be lost.
    if (!cluster_.has_reached_manager(host) || dead_hosts_.contains(host)) return;
    events_.add("host {} is cut from the manager", host);
    cluster_.cut_from_manager(host);
    ++counts_.cuts;
}

void HistoryFaults::slow_down() {
    for (uint32_t worker = 0; worker < cluster_.shape().workers; ++worker) {
        if (random_.below(2) == 0) continue;
        cluster_.network.set_slowness(cluster_.host_of_worker(worker),
                                      static_cast<double>(2 + random_.below(40)));
    }
}

void HistoryFaults::pause() {
    const size_t count = cluster_.shards.size() + cluster_.workers.size();
    // The manager too: joins, moves and deaths are known late then.
    const size_t managers = std::max<size_t>(1, cluster_.shape().replicas);
    const size_t which = random_.below(count + managers);
    const StateMachine* machine = cluster_.manager.get();
    if (which < cluster_.shards.size()) {
        machine = cluster_.shards[which].get();
    } else if (which < count) {
        machine = cluster_.workers[which - cluster_.shards.size()].get();
    }
    if (machine == nullptr || !cluster_.stopped.insert(machine).second) return;
    pauses_.push_back({machine, 20 + random_.below(300)});
    ++counts_.pauses;
    if (which >= count) ++counts_.managers_paused;
}

void HistoryFaults::live() {
    // While a joiner is dead and nobody knows it, shards stand still: see live(Joiner&).
    const bool shards_stand = std::ranges::any_of(joiners_, &Joiner::is_dead);
    std::erase_if(pauses_, [&](Pause& pause) {
        if (!is_draining_ && --pause.turns > 0) return false;
        const bool is_shard = std::ranges::any_of(
            cluster_.shards, [&](const auto& shard) { return shard.get() == pause.machine; });
        if (!is_shard || !shards_stand) cluster_.stopped.erase(pause.machine);
        return true;
    });
    for (Joiner& joiner : joiners_)
        live(joiner);
    std::erase_if(joiners_, [](const Joiner& joiner) { return joiner.is_over; });
}

/// A joiner dies while it holds nothing alone.
void HistoryFaults::live(Joiner& joiner) {
    const View view = cluster_.managers_view();
    if (joiner.is_dead) {
        const bool is_known = std::ranges::none_of(joiners_, [&](const Joiner& other) {
            return other.is_dead && view.server(other.server) != nullptr;
        });
        // A manager that ends the job makes no more views.
        if (is_known || cluster_.is_managed_to_end()) bury(joiner);
        return;
    }
    if (cluster_.shards[joiner.first_shard] == nullptr) {
        joiner.is_over = true;  // HistoryDeaths has killed it
        return;
    }
    const std::string address = cluster_.shards[joiner.first_shard]->address();
    const auto in_view = std::ranges::find_if(
        view.shards(), [&](const ViewShard& shard) { return shard.address == address; });
    bool holds = false;
    bool learns = false;
    if (in_view != view.shards().end()) {
        const uint32_t server = in_view->server;
        for (const ViewSegment& segment : view.segments()) {
            const ViewShard* const primary = view.shard(segment.primary);
            holds |= primary != nullptr && primary->server == server;
            for (size_t b = 0; b < segment.backup_count(); ++b)
                holds |= view.shard(segment.backups[b])->server == server;
            const ViewShard* const learner =
                segment.has_learner() ? view.shard(segment.learner.shard) : nullptr;
            learns |= learner != nullptr && learner->server == server;
        }
    }
    if (in_view == view.shards().end() && cluster_.shards[joiner.first_shard]->finished()) {
        joiner.is_over = true;  // it was told to leave before it held anything
        return;
    }
    const bool dies = (joiner.fate == Fate::kDiesEarly && !learns && joiner.turns == 0) ||
                      (joiner.fate == Fate::kDiesAsLearner && learns && joiner.turns == 0);
    if (joiner.turns > 0 && (learns || joiner.fate != Fate::kDiesAsLearner)) --joiner.turns;
    // It gets all at once: as long as it learns, it may die.
    if (cluster_.shape().replicas == 0) CHECK_FALSE((holds && learns));
    const bool is_known = cluster_.has_life_line(joiner.host);
    if (dies && !holds && !learns && is_known) {
        kill(joiner);
        joiner.is_over = true;
    } else if (is_known && ((dies && !holds) || (holds && joiner.fate == Fate::kDiesAsGainer))) {
        kill(joiner);
        // Those who are to hand over to it do not get to it before it is known to be dead.
        joiner.is_dead = true;
        joiner.server = in_view->server;
        for (const auto& shard : cluster_.shards) {
            if (shard != nullptr) cluster_.stopped.insert(shard.get());
        }
    } else if (holds || (learns && joiner.fate == Fate::kDiesEarly)) {
        joiner.is_over = true;
        ++counts_.servers_joined;
    }
}

void HistoryFaults::kill(const Joiner& joiner) {
    events_.add("a joiner dies, fate {}", static_cast<int>(joiner.fate));
    kill_host(joiner.host);
    ++counts_.joiners_died;
}

void HistoryFaults::kill_host(uint32_t host) {
    cluster_.kill_host(host);
    dead_hosts_.insert(host);
    for (size_t i = 0; i < cluster_.shards.size(); ++i) {
        auto& shard = cluster_.shards[i];
        if (shard == nullptr || cluster_.host_of_shard(i) != host) continue;
        forget(shard.get());
        shard.reset();
    }
}

void HistoryFaults::bury(Joiner& joiner) {
    for (const auto& shard : cluster_.shards) {
        if (!is_paused(shard.get())) cluster_.stopped.erase(shard.get());
    }
    joiner.is_over = true;
}

void HistoryFaults::forget(const StateMachine* machine) {
    cluster_.stopped.erase(machine);
    std::erase_if(pauses_, [&](const Pause& pause) { return pause.machine == machine; });
}

bool HistoryFaults::is_paused(const StateMachine* machine) const {
    return std::ranges::any_of(pauses_,
                               [&](const Pause& pause) { return pause.machine == machine; });
}

bool HistoryFaults::is_at_rest() const {
    return std::ranges::none_of(joiners_, &Joiner::is_dead);
}

}  // namespace weir::test

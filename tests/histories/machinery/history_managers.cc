// SPDX-License-Identifier: Apache-2.0
#include "tests/histories/machinery/history_managers.h"

namespace weir::test {

bool HistoryManagers::may_fail() const {
    if (cluster_.managers.empty() || trouble_ || is_draining_ || has_died_) return false;
    // The proof that a process has ended must not be lost with the manager that has it.
    return !cluster_.has_killed_lately();
}

void HistoryManagers::fail_with_server(uint32_t manager, uint64_t until_ns, bool is_cut) {
    if (manager >= cluster_.managers.size() || !may_fail()) return;
    ++counts_.managers_with_servers;
    begin({manager, until_ns, is_cut});
}

/// Also while another one is dead, stopped or cut off.
void HistoryManagers::want_handover() {
    const uint32_t leader = cluster_.leading_manager();
    if (leader == ~uint32_t{0} || is_draining_ || cluster_.has_killed_lately()) return;
    events_.add("manager {} is to hand over", leader);
    ++counts_.handovers;
    cluster_.want_handover(leader);
    cluster_.lines_break();
}

void HistoryManagers::wish() {
    if (!cluster_.managers.empty() && random_.below(4) == 0) return want_handover();
    if (!may_fail()) return;
    const auto count = static_cast<uint32_t>(cluster_.managers.size());
    const uint32_t leader = cluster_.leading_manager();
    // Mostly the one that leads.
    const bool is_any = leader == ~uint32_t{0} || random_.below(3) == 0;
    const auto manager = is_any ? static_cast<uint32_t>(random_.below(count)) : leader;
    if (random_.below(4) == 0) return kill(manager);
    begin({manager, cluster_.clock.now_ns() + kMillisecond * (20 + random_.below(800)),
           random_.below(2) == 0});
}

bool HistoryManagers::kill_leader() {
    const uint32_t leader = cluster_.leading_manager();
    if (leader == ~uint32_t{0} || !may_fail()) return false;
    ++counts_.managers_with_servers;
    kill(leader);
    return true;
}

void HistoryManagers::kill(uint32_t manager) {
    events_.add("manager {} dies", manager);
    ++counts_.managers_killed;
    counts_.leaders_failed += manager == cluster_.leading_manager() ? 1 : 0;
    has_died_ = true;
    cluster_.kill_manager(manager);
    cluster_.lines_break();
}

void HistoryManagers::begin(Trouble trouble) {
    counts_.leaders_failed += trouble.manager == cluster_.leading_manager() ? 1 : 0;
    trouble_ = trouble;
    cluster_.lines_break();
    if (!trouble.is_cut) {
        events_.add("manager {} is stopped", trouble.manager);
        ++counts_.managers_stopped;
        cluster_.stopped_hosts.insert(SimCluster::kManagersHost + trouble.manager);
        return;
    }
    events_.add("manager {} is cut off from the others", trouble.manager);
    ++counts_.managers_cut_off;
    for (uint32_t other = 0; other < cluster_.managers.size(); ++other) {
        if (other != trouble.manager)
            cluster_.network.partition(SimCluster::kManagersHost + trouble.manager,
                                       SimCluster::kManagersHost + other);
    }
}

void HistoryManagers::end(const Trouble& trouble) {
    events_.add("manager {} is back", trouble.manager);
    cluster_.lines_break();
    cluster_.stopped_hosts.erase(SimCluster::kManagersHost + trouble.manager);
    if (!trouble.is_cut) return;
    for (uint32_t other = 0; other < cluster_.managers.size(); ++other) {
        if (other != trouble.manager)
            cluster_.network.heal(SimCluster::kManagersHost + trouble.manager,
                                  SimCluster::kManagersHost + other);
    }
}

void HistoryManagers::live() {
    if (!trouble_ || (cluster_.clock.now_ns() < trouble_->until_ns && !is_draining_)) return;
    end(*trouble_);
    trouble_.reset();
}

}  // namespace weir::test

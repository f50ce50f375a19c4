// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// HistoryFaults: what happens to the processes of a history: servers join and leave, joiners and
/// workers die, processes pause or are slow.

#include <set>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/histories/machinery/history_log.h"
#include "tests/histories/machinery/history_workers.h"

namespace weir::test {

/// Thread: one
class HistoryFaults {
public:
    HistoryFaults(SimCluster& cluster, Random& random, HistoryWorkers& workers,
                  HistoryEvents& events, HistoryCounts& counts)
        : cluster_(cluster), random_(random), workers_(workers), events_(events), counts_(counts) {}

    /// A server asks to join, and may die on the way.
    void add_server();
    void remove_server();
    /// Not the first one.
    void kill_worker();
    /// A shard or a worker stands still for some turns.
    void pause();
    /// The connections of a process to the manager break, and with them the proof that it lives.
    void cut_from_manager();
    /// Some workers are slower than all others. What is fetched from them may wait long.
    void slow_down();

    /// All shards of a server are dead, and what is in its memory is gone.
    void kill_host(uint32_t host);

    /// A turn has passed.
    void live();

    /// From now on nobody stands still.
    void drain() { is_draining_ = true; }

    /// Nobody is dead whom the manager does not know as that.
    [[nodiscard]] bool is_at_rest() const;

private:
    enum class Fate { kJoins, kDiesEarly, kDiesAsLearner, kDiesAsGainer };

    struct Joiner {
        uint32_t host = 0;
        size_t first_shard = 0;  ///< in SimCluster::shards
        Fate fate = Fate::kJoins;
        uint64_t turns = 0;
        uint32_t server = 0;  ///< once it is dead
        bool is_dead = false;
        bool is_over = false;
    };

    struct Pause {
        const StateMachine* machine = nullptr;
        uint64_t turns = 0;
    };

    void live(Joiner& joiner);
    void kill(const Joiner& joiner);
    void bury(Joiner& joiner);
    /// The process is gone.
    void forget(const StateMachine* machine);
    [[nodiscard]] bool is_paused(const StateMachine* machine) const;

    SimCluster& cluster_;
    Random& random_;
    HistoryWorkers& workers_;
    HistoryEvents& events_;
    HistoryCounts& counts_;
    bool is_draining_ = false;
    std::vector<Joiner> joiners_;
    std::vector<Pause> pauses_;
    std::set<uint32_t> dead_hosts_;
};

}  // namespace weir::test

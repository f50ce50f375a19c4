// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ReassignWorkers: the workers of a history that take their work in rounds. In each round they make a
/// table, push their parts of its iterations, and meet; a call that ends with kReassigned sends its worker to
/// the next round. Beside that they push to the log, which no round ends.

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/random.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/histories/machinery/history_log.h"
#include "tests/histories/machinery/reassign/reassign_counts.h"
#include "tests/histories/machinery/reassign/reassign_tables.h"

namespace weir::test {

/// The members of `cluster.workers`, by the same numbers.
///
/// Thread: one
class ReassignWorkers {
public:
    ReassignWorkers(SimCluster& cluster, Random& random, HistoryEvents& events,
                    ReassignCounts& counts, ReassignTables& tables)
        : cluster_(cluster), random_(random), events_(events), counts_(counts), tables_(tables) {
        workers_.resize(cluster.workers.size());
    }

    /// Another one joins, if there is one left.
    void add();
    /// One gives its work back and leaves, if others go on; not this one.
    void remove(uint32_t except);
    /// Some worker that may die: others go on. ~0: none may.
    [[nodiscard]] uint32_t some_that_may_die(uint32_t except);
    /// It is dead, or its process hangs: what it pushed without an answer may count or not.
    void note_death(uint32_t number);

    /// Takes what has ended, and begins other calls.
    void live();

    /// Only what others wait for begins, and nobody joins or leaves.
    void drain() { is_draining_ = true; }

    /// Calls begin seldom, so that time goes on in leaps while something waits for a lease.
    void set_waiting(bool is_waiting) { is_waiting_ = is_waiting; }

    /// All that live have done all of one round, and no other is to begin.
    [[nodiscard]] bool is_at_rest() const;
    /// They meet once more, and one of them says that the work is done.
    void finish();

    /// Some worker that is in the job and lives.
    [[nodiscard]] uint32_t some_that_lives();

    [[nodiscard]] bool is_alive(uint32_t number) const {
        return workers_[number].does != Does::kIsGone;
    }

    [[nodiscard]] std::string text() const;

private:
    using CallId = ClientCore::CallId;

    enum class Does : uint8_t {
        kJoins,
        kTakes,
        kOpensLog,
        kOpens,
        kTrains,
        kMeets,
        kGivesBack,
        kLeaves,
        kIsGone
    };

    struct Open {
        CallId call = 0;
        uint64_t iteration = 0;
        std::vector<uint64_t> keys;
        std::vector<uint64_t> values;
    };

    struct Worker {
        Does does = Does::kJoins;
        CallId call = 0;  ///< of what it does; 0: none is open
        bool is_to_leave = false;
        bool is_reassigned = false;  ///< some call of this round has ended so
        bool has_log = false;
        WorkShare share;
        TableInfo log;
        TableInfo table;
        std::deque<Open> parts;
        std::optional<Open> pull;  ///< of an iteration
        uint64_t pull_least = 0;
        std::optional<Open> push;  ///< to the log
    };

    void live(uint32_t number);
    void settle(uint32_t number);
    void settle_round(uint32_t number);
    void go_on(uint32_t number);
    void note_share(uint32_t number, WorkShare share);
    void note_table(uint32_t number, Result<TableInfo> table);
    void train(uint32_t number);
    void push_part(uint32_t number);
    void pull_iteration(uint32_t number);
    void push_to_log(uint32_t number);
    void leave(uint32_t number);
    void check(uint32_t number, const Status& ended, const char* what);
    [[nodiscard]] bool is_active(const Worker& worker) const;
    [[nodiscard]] size_t active_count() const;

    SimCluster& cluster_;
    Random& random_;
    HistoryEvents& events_;
    ReassignCounts& counts_;
    ReassignTables& tables_;
    bool is_draining_ = false;
    bool is_waiting_ = false;
    uint64_t changes_ = 0;  ///< workers that died, joined or left: each ends a round at most
    std::deque<Worker> workers_;
    std::map<uint64_t, std::vector<uint32_t>> pieces_;  ///< by round: those of all shares so far
    std::map<uint64_t, uint32_t> shares_;               ///< by round: how many
};

}  // namespace weir::test

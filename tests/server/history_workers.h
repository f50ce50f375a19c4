// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// HistoryWorkers: the workers of a history, the tables that they use, and what must be true of
/// their calls: every push counts once (one that was given up at most once), every pull is
/// explained, the rule of an iteration runs once on the parts of all its members, and no buffer is
/// touched after its call.

#include <deque>
#include <set>
#include <string>
#include <vector>

#include "lib/base/random.h"
#include "tests/server/counted_pushes.h"
#include "tests/server/counted_rounds.h"
#include "tests/server/history_log.h"
#include "tests/server/sim_cluster.h"

namespace weir::test {

/// The members of `cluster.workers`, by the same numbers.
///
/// Thread: one
class HistoryWorkers {
public:
    static constexpr uint64_t kKeys = 120;

    HistoryWorkers(SimCluster& cluster, Random& random, HistoryEvents& events,
                   HistoryCounts& counts)
        : cluster_(cluster), random_(random), events_(events), counts_(counts), rounds_(kKeys) {}

    /// The first workers have joined. One of them makes the tables.
    void start();

    /// A worker asks to join, if there is one left.
    void add();
    /// A worker is to leave, if one may.
    void remove();
    /// The worker has died, but for `cluster.workers`. What it has pushed without an answer may
    /// count or not. False if that worker cannot die.
    [[nodiscard]] bool kill(uint32_t number);

    /// Takes what has ended, and begins other calls.
    void live() {
        for (uint32_t worker = 0; worker < workers_.size(); ++worker)
            live(worker);
    }

    /// From now on no call begins but parts of iterations that others wait for.
    void drain() { is_draining_ = true; }

    /// Fewer calls begin, so that time passes: in turns in which nothing happens, a millisecond does.
    void set_slow(bool is_slow) { is_slow_ = is_slow; }

    /// It begins nothing but pulls, of what it thinks the servers are. (Its pushes would wait for one
    /// that was replaced, and soon all its calls with them.)
    void set_only_pulls(uint32_t number, bool only) {
        only ? void(only_pulls_.insert(number)) : void(only_pulls_.erase(number));
    }

    /// All calls and iterations have ended.
    [[nodiscard]] bool is_at_rest() const;
    /// What is still to come.
    [[nodiscard]] std::string text() const;
    /// Looks at all values, after the last call.
    void check_all();

private:
    struct Call {
        ClientCore::CallId id = 0;
        size_t table = 0;
        bool is_push = false;
        bool is_hurried = false;  ///< it has a deadline that it may miss
        uint64_t due_ns = 0;      ///< that deadline
        uint32_t late_turns = 0;  ///< after it, in which its worker was polled
        std::vector<uint64_t> keys;
        std::vector<uint64_t> plain;  ///< values in memory that is not registered
        Block block;                  ///< values in memory that is
        std::vector<uint64_t> before;

        [[nodiscard]] std::span<uint64_t> values(size_t count) {
            if (!plain.empty()) return plain;
            return {reinterpret_cast<uint64_t*>(block.data()), count};
        }
    };

    /// A push into an iteration, or a pull of one.
    struct Round {
        ClientCore::CallId id = 0;
        bool is_push = false;
        bool is_hurried = false;  ///< it has a deadline that it may miss
        uint64_t iteration = 0;
        std::vector<uint64_t> keys;
        std::vector<uint64_t> values;
        std::vector<uint64_t> before;  ///< of a pull
    };

    struct Worker {
        bool is_ready = false;
        bool is_leaving = false;
        bool has_left = false;
        bool has_died = false;
        bool has_iterations = true;
        uint64_t pushed = 0;  ///< its last iteration; 0: none yet
        ClientCore::CallId leave = 0;
        std::deque<Call> calls;
        std::deque<Round> rounds;
        std::vector<Round> failed;  ///< parts; shards may not know yet that it has withdrawn them
        std::vector<std::vector<uint64_t>> lists;
    };

    /// Buffers of a call that has ended: nobody reads or writes them any more.
    struct Grave {
        std::vector<uint64_t> plain;
        Block block;
        size_t count = 0;

        [[nodiscard]] std::span<uint64_t> values() {
            if (!plain.empty()) return plain;
            return {reinterpret_cast<uint64_t*>(block.data()), count};
        }
    };

    [[nodiscard]] const Clock& clock_of(uint32_t number) {
        return cluster_.clock_of(cluster_.host_of_worker(number));
    }

    void live(uint32_t number);
    void leave(Worker& worker, ClientCore& client);
    [[nodiscard]] std::vector<uint64_t> some_keys(uint64_t count);
    void begin(uint32_t number, Call& call);
    [[nodiscard]] bool end(uint32_t number, Call& call);
    void check_oldest_grave();
    void begin_round(uint32_t number);
    [[nodiscard]] bool end(uint32_t number, Round& round);
    [[nodiscard]] bool has_rounds_left(size_t number) const;
    void check(const Status& ended, const char* what) const;

    SimCluster& cluster_;
    Random& random_;
    HistoryEvents& events_;
    HistoryCounts& counts_;
    bool is_draining_ = false;
    bool is_slow_ = false;
    std::set<uint32_t> only_pulls_;
    std::vector<TableInfo> tables_;
    std::vector<CountedPushes> counted_;  // the first tables
    CountedRounds rounds_;                // the last one
    std::deque<Worker> workers_;
    std::deque<Grave> graves_;
};

}  // namespace weir::test

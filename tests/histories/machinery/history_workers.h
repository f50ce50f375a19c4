// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// HistoryWorkers: the workers of a history, the tables that they use, and what must be true of
/// their calls: every push counts once (one that was given up at most once), every pull is
/// explained, the rule of an iteration runs once on the parts of all its members, rows show the keys,
/// steps and arguments of what was pushed and what they began with, and no buffer is touched after its
/// call.

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "tests/cluster/counted_rounds.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/histories/machinery/counted_table.h"
#include "tests/histories/machinery/ending_rows.h"
#include "tests/histories/machinery/history_filters.h"
#include "tests/histories/machinery/history_functions.h"
#include "tests/histories/machinery/history_log.h"

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

    /// The first worker pushes what the rule of a table throws at. From now on calls may end with that, and
    /// none begins.
    void let_throw();
    /// All calls have ended, and the workers know why: that is checked.
    [[nodiscard]] bool have_ended_by_exception();
    /// Rows of a server, after that. `may_take_over`: where it answers, or may take over.
    void note_copies(const Shard& shard, PositionRange range, bool may_take_over);
    /// Those of all servers have been noted.
    void check_copies() const;

private:
    /// The keys of a call, and their values in its caller's memory.
    struct Transfer {
        ClientCore::CallId id = 0;
        bool is_push = false;
        bool is_range = false;    ///< it names its keys as a range
        bool is_hurried = false;  ///< it has a deadline that it may miss
        std::vector<uint64_t> keys;
        std::vector<uint64_t> plain;   ///< values in memory that is not registered
        Block block;                   ///< values in memory that is
        std::vector<uint64_t> before;  ///< of a pull: what was certain when it began
        bool is_selected = false;      ///< a push: of it travels this, and not what it was given
        std::vector<uint64_t> sent_keys;
        std::vector<uint64_t> sent_values;

        [[nodiscard]] std::span<const uint64_t> pushed_keys() const {
            return is_selected ? sent_keys : keys;
        }

        [[nodiscard]] std::span<const uint64_t> pushed_values(size_t width) {
            return is_selected ? std::span<const uint64_t>(sent_values)
                               : values(keys.size() * width);
        }

        [[nodiscard]] std::span<uint64_t> values(size_t count) {
            if (!plain.empty()) return plain;
            return {reinterpret_cast<uint64_t*>(block.data()), count};
        }

        [[nodiscard]] KeyRange range() const { return {keys.front(), keys.back() + 1}; }
    };

    struct Call : Transfer {
        size_t table = 0;
        uint64_t due_ns = 0;           ///< its deadline
        uint32_t late_turns = 0;       ///< after that, in which its worker was polled
        ClientCore::CallId after = 0;  ///< the call that must have ended before it begins
        bool is_dropped = false;       ///< nobody asks how it ended
        bool throws = false;           ///< the rule throws at it
        bool wants_values = false;     ///< a push, which gets them in `out`
        bool is_alone = false;         ///< nothing else is done by the same call
        bool is_narrow = false;        ///< a pull of values as they are kept
        Transfer out;
        std::unique_ptr<Call> also;  ///< what the same call does in another table
    };

    /// A push into an iteration, or a pull of one.
    struct Round : Transfer {
        uint64_t iteration = 0;
        std::vector<uint64_t> bits;  ///< what a push has as its values
        bool wants_values = false;   ///< a push, which gets those after the iteration in `out`
        Transfer out;
    };

    /// A part that was withdrawn.
    struct FailedPart {
        uint64_t iteration = 0;
        std::vector<uint64_t> keys;
        std::vector<uint64_t> bits;
    };

    /// A change of rows that end, or a look at them.
    struct Ending {
        ClientCore::CallId id = 0;
        bool looks = false;
        bool asks_written = false;  ///< a look: whether keys have rows
        size_t change = 0;          ///< as EndingRows::begin()
        std::vector<uint64_t> keys;
        std::vector<uint64_t> values;
        std::vector<std::byte> out;
    };

    /// A push through selectors.
    struct Filtered {
        ClientCore::CallId id = 0;
        std::vector<uint64_t> keys;
        std::vector<float> values;
    };

    struct Worker {
        bool is_ready = false;
        bool is_leaving = false;
        bool has_left = false;
        bool has_died = false;
        bool has_iterations = true;
        bool leaves_open = false;  ///< it does not wait for its calls, but leave() does
        uint64_t pushed = 0;       ///< its last iteration; 0: none yet
        ClientCore::CallId leave = 0;
        std::deque<Call> calls;
        std::deque<Round> rounds;
        std::deque<Ending> endings;
        std::deque<Filtered> filtered;
        uint64_t pushed_filtered = 0;      ///< such pushes
        std::vector<float> filtered_sums;  ///< of this worker's keys
        std::map<size_t, HeldBits> held;   ///< by table
        HeldBits held_of_rounds;           ///< values that are no bits
        bool takes_along = false;          ///< the next part, all of held_of_rounds
        std::vector<FailedPart> failed;    ///< shards may not know yet that it has withdrawn them
        std::vector<std::vector<uint64_t>> lists;
        std::set<ClientCore::CallId> failed_calls;  ///< what waits for them fails, too
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
    void leave(uint32_t number);
    void drop_some(Worker& worker, ClientCore& client);
    [[nodiscard]] std::vector<uint64_t> some_keys(uint64_t count);
    void choose_keys(Worker& worker, Layout layout, uint64_t count_max, Transfer& transfer);
    void make_room(uint32_t number, Transfer& transfer, size_t count);
    void begin(uint32_t number, Call& call);
    void choose(uint32_t number, Call& call);
    void choose_second(uint32_t number, Call& call);
    [[nodiscard]] Operation operation_of(uint32_t number, Call& call, const CallOptions& options);
    [[nodiscard]] const Filters* some_filters(uint32_t number, Call& call, uint64_t factor);
    [[nodiscard]] bool flush(uint32_t number);
    [[nodiscard]] static Operation operation_of(const TableInfo& table, Transfer& transfer,
                                                size_t count, const CallOptions& options);
    [[nodiscard]] TaskId some_call_before(uint32_t number, Call& call);
    [[nodiscard]] ClientCore::CallId send(ClientCore& client, const TableInfo& table,
                                          Transfer& transfer, size_t count,
                                          const CallOptions& options);
    [[nodiscard]] bool end(uint32_t number, Call& call);
    void check_not_late(uint32_t number, Call& call);
    void note_end(uint32_t number, Call& call, const Status& ended);
    void note_pulled(Call& call);
    void note_end_by_exception(uint32_t number, Call& call, const Status& ended);
    [[nodiscard]] std::span<const NamedNumber> some_factor(uint64_t factor);
    void note_acknowledged(const Call& call);
    void choose_one_key(Call& call);
    void bury(Transfer& transfer, size_t count);
    void check_oldest_grave();

    // history_rounds.cc
    void begin_round(uint32_t number);
    void begin_part(uint32_t number);
    [[nodiscard]] static bool has_open_part(const Worker& worker);
    static void add_held_keys(const Worker& worker, Round& round);
    void begin_pull_of_round(uint32_t number);
    [[nodiscard]] bool end(uint32_t number, Round& round);
    void end_pull(uint32_t number, Round& round, Transfer& out, std::optional<uint64_t> shown);
    void note_failed(uint32_t number, Round& round);
    [[nodiscard]] bool has_rounds_left(size_t number) const;
    void check(const Status& ended, const char* what) const;

    // history_endings.cc
    [[nodiscard]] TableSchema endings_table();
    void live_of_endings(uint32_t number);
    void begin_ending(uint32_t number);
    [[nodiscard]] bool end(uint32_t number, Ending& ending);
    void look_at(uint32_t number, const Ending& ending);
    void check_endings();

    // history_filtered.cc
    [[nodiscard]] static const std::vector<Filters>& chains();
    [[nodiscard]] TableSchema filtered_table();
    void live_of_filtered(uint32_t number);
    void begin_filtered(uint32_t number);
    void check_filtered();

    /// Of the worker, that is no call, round, ...
    [[nodiscard]] bool has_others(uint32_t number) const {
        const Worker& worker = workers_[number];
        return !worker.endings.empty() || !worker.filtered.empty() || functions_->is_open(number);
    }

    void live_of_functions(uint32_t number);

    SimCluster& cluster_;
    Random& random_;
    HistoryEvents& events_;
    HistoryCounts& counts_;
    bool is_draining_ = false;
    bool is_slow_ = false;
    bool has_thrown_ = false;
    NamedNumber factor_{"factor", 1};  ///< of the call that begins
    std::set<uint32_t> only_pulls_;
    /// The last pushes that were acknowledged: of each its table, and one of its keys.
    std::deque<std::pair<size_t, uint64_t>> acknowledged_;
    static constexpr size_t kStepsTable = 2;   ///< its rule sees whole rows, and may throw
    static constexpr size_t kRoundsTable = 3;  ///< that of iterations; those before it are counted
    static constexpr size_t kEndingsTable = 4;
    static constexpr size_t kFilteredTable = 5;
    static constexpr uint64_t kFilteredKeys = 40;  ///< of each worker
    std::vector<TableInfo> tables_;
    std::vector<uint64_t> common_keys_;  ///< of nearly all parts of iterations; none: any keys
    std::vector<CountedTable> counted_;  // the first tables
    CountedRounds rounds_;
    std::optional<HistoryFilters> filters_;
    std::optional<HistoryFunctions> functions_;
    Random endings_random_{0};
    Random filtered_random_{0};
    Random functions_random_{0};
    std::deque<EndingRows> endings_;  // by worker
    std::deque<Worker> workers_;
    std::deque<Grave> graves_;
};

}  // namespace weir::test

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// HistoryFunctions: functions on servers in a history. Each worker changes keys of its own in one table, by functions
/// that read another one, and by pushes to both, and looks at them when none of its changes is open; and at any time
/// it counts all values, of which each must count once.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/base/random.h"
#include "tests/cluster/counted_rounds.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/histories/machinery/history_log.h"

namespace weir::test {

/// Thread: one
class HistoryFunctions {
public:
    HistoryFunctions(SimCluster& cluster, HistoryEvents& events, HistoryCounts& counts,
                     uint64_t seed)
        : cluster_(cluster), events_(events), counts_(counts), random_(seed) {}

    /// Makes the tables.
    void start();

    /// Takes what has ended, and begins something else, if `begins`.
    /// `errors_count`: calls have to end well.
    void live(uint32_t worker, bool begins, bool errors_count);

    [[nodiscard]] bool is_open(uint32_t worker) const {
        return worker < calls_.size() && !calls_[worker].empty();
    }

    /// At the end, by the first worker.
    void check_all();

private:
    static constexpr uint64_t kKeys = 48;  ///< of each worker
    static constexpr double kFirst = 1;    ///< of keys that were never changed
    static constexpr double kFirstOther = 2;

    enum class Kind : uint8_t { kPush, kPushOther, kAxpy, kScale, kCopy, kAssign, kClip };

    struct Change {
        Kind kind = Kind::kPush;
        bool is_certain = false;
    };

    /// A change, or a look.
    struct Call {
        ClientCore::CallId id = 0;
        enum class Look : uint8_t { kNone, kValues, kSum, kCount } look = Look::kNone;
        size_t change = 0;  ///< of the worker
        std::vector<uint64_t> keys;
        std::vector<double> values;
        std::unique_ptr<CallResult> result =
            std::make_unique<CallResult>();  ///< a deque moves its elements
    };

    struct State {
        double value = kFirst;
        double other = kFirstOther;
        bool has_row = false;
        friend bool operator==(const State&, const State&) = default;
    };

    /// The changes of one worker's keys.
    struct Changes {
        std::vector<Change> all;
        std::vector<std::vector<size_t>> of_key{kKeys};
        uint32_t scales = 0;
    };

    [[nodiscard]] static State after(State state, Kind kind);
    [[nodiscard]] std::vector<State> states_of(uint64_t key) const;
    void begin(uint32_t worker);
    void begin_change(uint32_t worker, Call& call);
    void begin_look(uint32_t worker, Call& call);
    [[nodiscard]] bool end(uint32_t worker, Call& call, bool errors_count);
    void check_values(const Call& call) const;
    void check_sum(uint32_t worker, const Call& call) const;
    [[nodiscard]] bool has_open_change(uint32_t worker) const;
    [[nodiscard]] ClientCore::CallId reduce(uint32_t worker, std::string_view function,
                                            std::optional<KeyRange> keys, CallResult& result);

    SimCluster& cluster_;
    HistoryEvents& events_;
    HistoryCounts& counts_;
    Random random_;
    bool is_dense_ = false;
    size_t width_ = 1;
    TableInfo table_;
    TableInfo other_;
    std::deque<std::deque<Call>> calls_;  // by worker
    std::deque<Changes> changes_;
};

}  // namespace weir::test

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LossCalls: what workers push and pull in a history in which some segment is lost in the end. A
/// call ends well, or says who is gone. What a pull shows, and what copies that are left have, must
/// be explained by the pushes: CountedPushes and CountedRounds say how.

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "lib/base/random.h"
#include "tests/cluster/counted_pushes.h"
#include "tests/cluster/counted_rounds.h"
#include "tests/cluster/sim_cluster.h"

namespace weir::test {

/// Thread: one
class LossCalls {
public:
    static constexpr uint64_t kKeyCount = 120;

    LossCalls(SimCluster& cluster, Random& random) : cluster_(cluster), random_(random) {}

    /// The first worker makes the tables.
    void start();

    /// A worker begins some call, if it has not too many.
    void begin(uint32_t worker);
    /// Each worker asks something of all keys: that must fail.
    void begin_in_vain();
    /// Takes what has ended. `has_silent`: some server was silent, and calls to it may end for that.
    void live(bool has_silent);

    [[nodiscard]] bool is_at_rest() const { return open_.empty(); }

    /// A copy of a segment that is left: all that was acknowledged is in it, and each push once at
    /// most. No call is open.
    void check_copy(const Shard& shard, PositionRange range);

    /// Calls that needed what is lost, and ended well after the manager had said so.
    [[nodiscard]] uint64_t late_answers() const { return late_answers_; }

    [[nodiscard]] uint64_t keys_checked() const { return keys_checked_; }

    [[nodiscard]] uint64_t parts_acknowledged() const { return parts_acknowledged_; }

    [[nodiscard]] std::string text() const;

private:
    struct Open {
        uint32_t worker = 0;
        ClientCore::CallId id = 0;
        bool is_push = false;
        bool must_fail = false;
        uint64_t iteration = 0;  ///< 0: none, in the counted table
        std::vector<uint64_t> keys;
        std::vector<uint64_t> values;
        std::vector<uint64_t> before;  ///< of a pull: what was certain when it began

        [[nodiscard]] KeyRange range() const { return {keys.front(), keys.back() + 1}; }
    };

    void begin_counted(Open& call);
    void begin_round(Open& call);
    void send(Open& call);
    [[nodiscard]] std::vector<uint64_t> some_keys();
    void take(Open& call);
    void note_end(const Open& call, std::optional<uint64_t> shown);
    void note_failure(const Open& call);
    void check_reason(const Error& error) const;
    [[nodiscard]] bool needs_what_is_lost(const Open& call) const;

    SimCluster& cluster_;
    Random& random_;
    TableInfo sums_;
    TableInfo sums_of_rounds_;
    CountedPushes counted_{kKeyCount, 1};
    CountedRounds rounds_{kKeyCount};
    std::vector<uint64_t> pushed_;  ///< by worker: its last iteration
    std::deque<Open> open_;
    bool has_silent_ = false;
    uint64_t late_answers_ = 0;
    uint64_t keys_checked_ = 0;
    uint64_t parts_acknowledged_ = 0;
};

}  // namespace weir::test

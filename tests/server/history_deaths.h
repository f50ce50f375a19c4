// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// HistoryDeaths: servers of a history die that hold something, and their memory with them. One at a
/// time: the next one dies when the manager knows of the last one, and if each segment of which it is
/// primary, or was not long ago, has a backup.

#include <cstdint>
#include <deque>
#include <optional>
#include <set>

#include "lib/base/random.h"
#include "tests/server/history_faults.h"
#include "tests/server/history_log.h"
#include "tests/server/sim_cluster.h"

namespace weir::test {

/// Thread: one
class HistoryDeaths {
public:
    HistoryDeaths(SimCluster& cluster, Random& random, HistoryFaults& faults, HistoryEvents& events,
                  HistoryCounts& counts)
        : cluster_(cluster), random_(random), faults_(faults), events_(events), counts_(counts) {}

    /// Some server dies, if one may.
    void wish();
    /// A turn has passed.
    void live();

    /// Whether a server may fail now: fewer others have that are in the view than there are backups,
    /// and of each segment that it holds or held another one has a copy that does not fail. Its host;
    /// nothing if it may not.
    [[nodiscard]] std::optional<uint32_t> host_that_may_fail(uint32_t server) const;

    /// A server has failed that is not dead, or has not any more: it counts among those that have.
    void set_silent(std::optional<uint32_t> server) { silent_ = server; }

    /// From now on nobody dies.
    void drain() { is_draining_ = true; }

    /// All servers of the view are alive and have that view, and each segment has its backups, if
    /// there are two servers.
    [[nodiscard]] bool is_at_rest() const;

private:
    enum class Why : uint8_t { kAny, kLoses, kGains, kLearns, kHasTaught };

    struct Target {
        uint32_t server = 0;
        Why why = Why::kAny;
        uint64_t turns = 0;  ///< until it dies
    };

    void look_at_moves(const View& before, const View& after);
    [[nodiscard]] bool may_die(uint32_t server, const View& view) const;
    [[nodiscard]] std::set<uint32_t> failing() const;
    void kill(const Target& target);
    [[nodiscard]] bool has_all_copies(const View& view) const;

    SimCluster& cluster_;
    Random& random_;
    HistoryFaults& faults_;
    HistoryEvents& events_;
    HistoryCounts& counts_;
    bool is_draining_ = false;
    std::optional<uint32_t> silent_;
    std::deque<View> seen_;  ///< the last views, the newest one first
    std::optional<Target> target_;
    std::set<uint32_t> dead_;  ///< servers of the view
};

}  // namespace weir::test

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// HistoryDeaths: servers of a history die that hold something, and their memory with them. One at a
/// time: the next one dies when the manager knows of the last one, and if each segment of which it is
/// primary, or was not long ago, has a backup. Some cannot reach another server, or the manager, when they
/// die.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "lib/base/random.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/histories/machinery/history_faults.h"
#include "tests/histories/machinery/history_log.h"

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

    /// The server that is silent dies, if it may now.
    [[nodiscard]] bool kill_silent(uint32_t host);

    using Hosts = std::pair<uint32_t, uint32_t>;

    /// Two hosts do not reach each other any more. A server on one of them may die soon, but not when
    /// its copies on the other one are about to be given up: then the link and the server are two failures.
    void part(Hosts hosts);
    /// They do.
    void heal(Hosts hosts);

    /// From now on nobody dies.
    void drain() { is_draining_ = true; }

    /// All servers of the view are alive and have that view, and each segment has its backups, if
    /// there are two servers.
    [[nodiscard]] bool is_at_rest() const;

private:
    enum class Why : uint8_t { kAny, kLoses, kGains, kLearns, kHasTaught, kParted };

    struct Parted {
        uint64_t begin_ns = 0;
        uint64_t healed_ns = 0;  ///< 0: not yet
    };

    struct Target {
        uint32_t server = 0;
        Why why = Why::kAny;
        uint64_t turns = 0;  ///< until it dies
    };

    void look_at_moves(const View& before, const View& after);
    [[nodiscard]] bool may_die(uint32_t server, const View& view) const;
    [[nodiscard]] std::set<uint32_t> failing() const;
    [[nodiscard]] std::optional<uint32_t> server_on(uint32_t host, const View& view) const;
    [[nodiscard]] bool is_parted(uint32_t host) const;
    [[nodiscard]] bool loses_copies(uint32_t server, const View& view) const;
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
    std::map<Hosts, Parted> parted_;
    std::set<uint32_t> dead_;  ///< servers of the view
};

}  // namespace weir::test

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// HistorySilence: processes of a history fall silent, for a part of a lease or for several. One server
/// at a time is stopped or cut off from the manager, in one direction or both; or the manager is
/// stopped. Workers are cut off from the manager when it replaces such a server, and hear of that
/// late. A server that is silent may die. And some hosts do not reach each other for a while. Of several managers, one may be on the host of a
/// server that falls silent.

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/histories/machinery/history_deaths.h"
#include "tests/histories/machinery/history_log.h"
#include "tests/histories/machinery/history_managers.h"
#include "tests/histories/machinery/history_workers.h"

namespace weir::test {

/// Thread: one
class HistorySilence {
public:
    HistorySilence(SimCluster& cluster, Random& random, HistoryDeaths& deaths,
                   HistoryWorkers& workers, HistoryManagers& managers, HistoryEvents& events,
                   HistoryCounts& counts)
        : cluster_(cluster),
          random_(random),
          deaths_(deaths),
          workers_(workers),
          managers_(managers),
          events_(events),
          counts_(counts) {}

    /// A server or the manager falls silent, if it may.
    void wish();
    /// Two hosts, neither of them the manager's, do not reach each other.
    void part();
    /// A turn has passed.
    void live();

    /// All is healed, and nobody falls silent any more.
    void drain();

    /// All servers that were replaced while they were silent have ended.
    [[nodiscard]] bool is_at_rest() const;

    /// The server on that host was replaced while it was silent: it ends with an error.
    [[nodiscard]] bool was_replaced(uint32_t host) const { return replaced_.contains(host); }

private:
    enum class How : uint8_t { kStopped, kCut, kNotHeard, kDeaf };

    struct Silent {
        uint32_t server = 0;
        uint32_t host = 0;
        uint64_t until_ns = 0;
        uint64_t dies_ns = 0;
        uint64_t healed_ns = 0;  ///< 0: not yet
        bool is_dead = false;
        bool is_replaced = false;
    };

    /// A worker and the manager, or any two others.
    struct Parting {
        std::pair<uint32_t, uint32_t> hosts;
        uint64_t until_ns = 0;
        std::optional<uint32_t> worker = std::nullopt;  ///< the second one
        bool is_one_way = false;
    };

    void stop_manager();
    void silence(uint32_t host, How how);
    void cut_workers();
    [[nodiscard]] bool has_server(uint32_t host) const;
    void begin(const Parting& parting);
    void end(const Parting& parting);
    void heal();
    void live(Silent& silent);
    [[nodiscard]] uint64_t some_ns(uint64_t tenths_min, uint64_t tenths_max);

    SimCluster& cluster_;
    Random& random_;
    HistoryDeaths& deaths_;
    HistoryWorkers& workers_;
    HistoryManagers& managers_;
    HistoryEvents& events_;
    HistoryCounts& counts_;
    bool is_draining_ = false;
    std::optional<Silent> silent_;
    std::optional<uint64_t> manager_until_ns_;  ///< it is stopped
    std::vector<Parting> partings_;
    std::set<uint32_t> replaced_;  ///< hosts
};

}  // namespace weir::test

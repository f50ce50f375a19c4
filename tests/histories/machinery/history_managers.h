// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// HistoryManagers: what happens to the managers of a history that has several: one dies, one is stopped, one
/// is cut off from the others. One at a time, so that most of them always live and reach each other. And one hands
/// over, at any time.

#include <cstdint>
#include <optional>

#include "lib/base/random.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/histories/machinery/history_log.h"

namespace weir::test {

/// Thread: one
class HistoryManagers {
public:
    HistoryManagers(SimCluster& cluster, Random& random, HistoryEvents& events,
                    HistoryCounts& counts)
        : cluster_(cluster), random_(random), events_(events), counts_(counts) {}

    /// Somebody may want something to happen.
    void wish();
    /// The host that a manager shares with a server is stopped, or cut off from the other managers' hosts, until
    /// then: if this manager may fail now.
    void fail_with_server(uint32_t manager, uint64_t until_ns, bool is_cut);
    /// The one that leads dies, if it may now: with a server, as both are on one host.
    [[nodiscard]] bool kill_leader();
    void live();

    /// Nothing more happens; what has happened is mended.
    void drain() { is_draining_ = true; }

    /// One leads, if there are several.
    [[nodiscard]] bool is_at_rest() const {
        return !trouble_ &&
               (cluster_.managers.empty() || cluster_.leading_manager() != ~uint32_t{0});
    }

private:
    struct Trouble {
        uint32_t manager = 0;
        uint64_t until_ns = 0;
        bool is_cut = false;  ///< from the others; else it is stopped
    };

    [[nodiscard]] bool may_fail() const;
    void want_handover();
    void kill(uint32_t manager);
    void begin(Trouble trouble);
    void end(const Trouble& trouble);

    SimCluster& cluster_;
    Random& random_;
    HistoryEvents& events_;
    HistoryCounts& counts_;
    std::optional<Trouble> trouble_;
    bool has_died_ = false;  ///< one has: the others must all live
    bool is_draining_ = false;
};

}  // namespace weir::test

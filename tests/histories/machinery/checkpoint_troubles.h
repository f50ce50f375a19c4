// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// CheckpointTroubles: what goes wrong with the processes and the network of a job while its checkpoints
/// are written.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/random.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/histories/machinery/history_log.h"
#include "tests/histories/machinery/history_managers.h"

namespace weir::test {

/// What goes wrong while checkpoints are written.
struct Troubles {
    /// A server joins or leaves, dies, or is stopped until the checkpoint has ended; each segment has
    /// one or two copies.
    bool of_servers = false;
    /// It fails once, or from some step on, and its answers are late.
    bool of_disk = false;
    /// There are three. One dies, is stopped or is cut off from the others, mostly the one that leads, also
    /// together with a server; or it hands over.
    bool of_managers = false;
    /// A process is cut from the manager, whole or in one direction; clocks go too fast or too slow.
    bool of_network = false;
};

/// Of one job. One server fails at a time, and one manager.
///
/// Thread: one
class CheckpointTroubles {
public:
    CheckpointTroubles(SimCluster& cluster, Random& random, Troubles troubles,
                       HistoryCounts& counts)
        : cluster_(cluster),
          random_(random),
          troubles_(troubles),
          counts_(counts),
          events_(cluster.clock),
          managers_(cluster, random, events_, counts) {}

    /// A checkpoint is asked for. The last one took so many steps of the disk.
    void begin(uint64_t disk_steps);
    /// A turn has passed. `disk_steps`: of this checkpoint
    void live(uint64_t disk_steps);
    /// The checkpoint has ended: so does all this, and whatever manager leads has done all on the disk.
    void end();

    /// A lease and an election are long where messages take microseconds: time is to go on in leaps, while nobody
    /// pushes.
    [[nodiscard]] bool is_long() const {
        return turns_ >= pushing_turns_ || !cluster_.stopped_hosts.empty();
    }

    [[nodiscard]] std::string text() const { return events_.text(); }

private:
    /// When the manager is to fail.
    struct Instant {
        bool is_of_disk = false;  ///< after so many of its steps; else of turns
        uint64_t count = 0;
    };

    struct Cut {
        uint32_t host = 0;
        uint64_t until_ns = 0;
    };

    [[nodiscard]] bool may_server_fail(const View& view, const std::vector<uint32_t>& hosts);
    void change_servers();
    void stop(uint32_t host);
    void kill(uint32_t host);
    void cut();
    void heal();
    void fail_manager(uint64_t disk_steps);

    SimCluster& cluster_;
    Random& random_;
    Troubles troubles_;
    HistoryCounts& counts_;
    HistoryEvents events_;
    HistoryManagers managers_;
    uint64_t server_turns_ = 0;  ///< until servers change
    uint64_t cut_turns_ = 0;
    uint64_t turns_ = 0;  ///< since the checkpoint was asked for
    uint64_t pushing_turns_ = ~uint64_t{0};
    std::optional<Instant> manager_fails_;
    std::optional<Cut> cut_;
    uint64_t healed_ns_ = 0;  ///< when a server could last be reached again
};

}  // namespace weir::test

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ReassignJob: one job of a history whose workers take their work in rounds. Workers and servers die, also
/// at one instant, hang, come and go, and so do managers; and checkpoints are asked for meanwhile.

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "tests/cluster/checkpoint_folder.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/histories/machinery/history_log.h"
#include "tests/histories/machinery/history_managers.h"
#include "tests/histories/machinery/reassign/reassign_counts.h"
#include "tests/histories/machinery/reassign/reassign_tables.h"
#include "tests/histories/machinery/reassign/reassign_workers.h"

namespace weir::test {

/// As many servers fail at a time as there are copies, and one manager.
///
/// Thread: one
class ReassignJob {
public:
    ReassignJob(Random& random, const SimShape& shape, const transport::sim::Options& network,
                const CheckpointFolder& folder, ReassignTables& tables, ReassignCounts& counts)
        : random_(random),
          folder_(folder),
          tables_(tables),
          counts_(counts),
          cluster_(random_(), shape, network),
          events_(cluster_.clock),
          managers_(cluster_, random_, events_, managers_counts_),
          workers_(cluster_, random_, events_, counts, tables) {
        REQUIRE(cluster_.start());
    }

    void run();

    [[nodiscard]] SimCluster& cluster() { return cluster_; }

    /// What the last checkpoint has at least, and at most.
    [[nodiscard]] const ReassignTables::Bounds& bounds() const { return bounds_; }

private:
    /// Who is to die, after so many turns.
    struct Death {
        uint64_t turns = 0;
        uint32_t workers = 0;
        uint32_t servers = 0;
        bool with_manager = false;
        bool hangs = false;   ///< the worker: its process stops for good
        uint32_t tries = 10;  ///< so often it waits until servers may fail
    };

    struct Checkpoint {
        uint32_t worker = 0;
        ClientCore::CallId call = 0;
        uint64_t before = 0;        ///< the newest one then
        bool must_succeed = false;  ///< nothing that may make it fail was under way
        bool lacks_copies = false;  ///< they were being made again
        uint64_t workers_died = 0;  ///< by then
        uint64_t troubles = 0;      ///< of servers and managers, by then
    };

    struct Host {
        uint32_t host = 0;
        uint32_t server = 0;
    };

    void wish();
    void wish_death();
    void live();
    void take_note_of_deaths();

    /// Something takes a lease: calls begin seldom, and little else is wished. Not from the beginning, so that calls
    /// begin also before all know what has happened.
    [[nodiscard]] bool is_waiting() const { return turns_waiting_ > 200; }

    /// False: it must wait.
    [[nodiscard]] bool die(const Death& death);
    void note_deaths(uint32_t workers, uint32_t servers);
    [[nodiscard]] bool kill_worker(bool hangs);
    [[nodiscard]] uint32_t kill_servers(std::vector<Host> hosts, uint32_t count);
    [[nodiscard]] std::vector<Host> servers_that_may_fail() const;
    [[nodiscard]] std::vector<Host> hosts_of_servers(const View& view) const;
    void change_servers();
    void cut();
    void ask_for_checkpoint();
    void settle_checkpoint();
    void note_checkpoint();
    void check_failure(const Error& why, const Checkpoint& asked) const;
    void check_losses() const;
    [[nodiscard]] bool is_calm() const;
    [[nodiscard]] bool is_disturbed() const;
    [[nodiscard]] bool has_all_copies(const View& view) const;
    [[nodiscard]] bool is_at_rest() const;
    [[nodiscard]] uint64_t newest() const;
    [[nodiscard]] std::string text() const;

    Random& random_;
    const CheckpointFolder& folder_;
    ReassignTables& tables_;
    ReassignCounts& counts_;
    SimCluster cluster_;
    HistoryEvents events_;
    HistoryCounts managers_counts_;
    HistoryManagers managers_;
    ReassignWorkers workers_;
    bool is_draining_ = false;
    std::deque<Death> deaths_;
    std::set<uint32_t> dead_;     ///< servers that the view still has
    std::set<uint32_t> gone_;     ///< workers, by their numbers in the job, that the view still has
    std::set<uint32_t> leaving_;  ///< servers that were asked to
    std::set<uint32_t> joining_;  ///< hosts of servers that are not in the view yet
    uint64_t turns_waiting_ = 0;  ///< until the manager knows all that
    uint64_t troubles_ = 0;       ///< servers and managers that failed, came or went
    uint64_t disturbed_ns_ = 0;   ///< when a connection to a manager was cut last, or it failed
    uint64_t workers_died_ = 0;
    uint64_t turn_ = 0;
    uint64_t worker_died_turn_ = 0;
    uint64_t server_died_turn_ = 0;
    std::optional<Checkpoint> checkpoint_;
    uint64_t noted_ = 0;            ///< the checkpoint of `bounds_`
    ReassignTables::Bounds asked_;  ///< of the one that was asked for last
    ReassignTables::Bounds bounds_;
};

}  // namespace weir::test

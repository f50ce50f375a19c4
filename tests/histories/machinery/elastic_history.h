// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ElasticHistory: one random history of a whole cluster whose servers and workers join, leave, die,
/// pause and lose connections.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/histories/machinery/history_deaths.h"
#include "tests/histories/machinery/history_faults.h"
#include "tests/histories/machinery/history_log.h"
#include "tests/histories/machinery/history_managers.h"
#include "tests/histories/machinery/history_silence.h"
#include "tests/histories/machinery/history_workers.h"

namespace weir::test {

/// Thread: one
class ElasticHistory {
public:
    /// `replicas`: so many backups each segment has; with 1, servers die that hold something.
    /// `record`: what its manager hears and does is written there. `managers`: with several, they fail, too.
    ElasticHistory(uint64_t seed, HistoryCounts& counts, uint32_t replicas = 0,
                   std::shared_ptr<ManagerRecord> record = nullptr, uint32_t managers = 1)
        : random_(seed),
          counts_(counts),
          network_faults_(std::make_shared<transport::Faults>(random_())),
          shape_(make_shape(replicas, std::move(record), managers)),
          options_(make_options()),
          cluster_(random_(), shape_, options_),
          events_(cluster_.clock),
          workers_(cluster_, random_, events_, counts_),
          faults_(cluster_, random_, workers_, events_, counts_),
          deaths_(cluster_, random_, faults_, events_, counts_),
          managers_(cluster_, random_, events_, counts_),
          silence_(cluster_, random_, deaths_, workers_, managers_, events_, counts_) {}

    /// Returns what happened last, and digests of all events and of all that went over the network.
    std::string run();

    [[nodiscard]] View managers_view() const { return cluster_.managers_view(); }

private:
    [[nodiscard]] SimShape make_shape(uint32_t replicas, std::shared_ptr<ManagerRecord> record,
                                      uint32_t managers);
    [[nodiscard]] transport::sim::Options make_options();

    [[nodiscard]] bool has_backups() const { return shape_.replicas > 0; }

    /// What somebody may want.
    void wish();
    void live();
    /// At no time do two shards answer for one position, whatever views they have.
    void check_primaries();
    /// No segment is lost, and no shard ends with an error.
    void check_losses() const;
    [[nodiscard]] bool may_answer(size_t shard);
    void finish();
    void check_copies();
    /// A rule throws: the job ends, at everybody, and what was acknowledged is in all copies.
    void end_by_exception();
    void check_after_exception();
    [[nodiscard]] std::string digest() const;
    [[nodiscard]] std::string text() const;

    Random random_;
    HistoryCounts& counts_;
    std::shared_ptr<transport::Faults> network_faults_;
    SimShape shape_;
    transport::sim::Options options_;
    SimCluster cluster_;
    HistoryEvents events_;
    HistoryWorkers workers_;
    HistoryFaults faults_;
    HistoryDeaths deaths_;
    HistoryManagers managers_;
    HistorySilence silence_;
    bool has_silences_ = false;
    uint64_t epoch_seen_ = 0;
    std::vector<uint64_t> epochs_;  // of the shards
};

}  // namespace weir::test

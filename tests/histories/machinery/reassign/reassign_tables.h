// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ReassignTables: what is known of the tables of a history whose workers take their work in rounds:
/// what they must show at least and at most, in the job, and in another one that goes on from a checkpoint.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "lib/checkpoint/manifest.h"
#include "tests/cluster/sim_cluster.h"

namespace weir::test {

/// Each round has a table of its own, to whose keys every worker of the round adds numbers in each
/// iteration. In the log every worker counts the pushes that it has made outside of iterations.
///
/// Thread: one
class ReassignTables {
public:
    static constexpr uint64_t kKeys = 40;         ///< of the table of a round
    static constexpr uint64_t kIterations = 25;   ///< of a round
    static constexpr uint32_t kWorkersMax = 10;   ///< of a job, one after the other
    static constexpr uint64_t kLogKeys = 10'000;  ///< for the pushes of one worker

    struct Round {
        TableSchema schema;
        std::vector<uint64_t> begun;  ///< by the worker's index in the round: its last iteration
        uint64_t acknowledged = 0;    ///< the last iteration of which some part was
        bool is_over = false;         ///< another round has begun
        /// By key, in a job that has gone on from a checkpoint: nobody pushes to it any more.
        std::optional<std::vector<uint64_t>> values;
    };

    struct Log {
        uint64_t acknowledged = 0;  ///< pushes
        uint64_t begun = 0;
    };

    /// How much of that must be there, and may.
    struct Bounds {
        struct Between {
            uint64_t least = 0;
            uint64_t most = 0;
        };

        std::vector<Between> rounds;  ///< iterations
        std::array<Between, kWorkersMax> logs;
    };

    explicit ReassignTables(Layout layout) : layout_(layout) {}

    /// The table of a round; the first worker of the round that asks begins it.
    [[nodiscard]] Round& round_of(const WorkShare& share);
    [[nodiscard]] static TableSchema log_schema();

    /// What one worker pushes to all keys in an iteration.
    [[nodiscard]] static std::vector<uint64_t> part(uint64_t index, uint64_t iteration);

    [[nodiscard]] Log& log_of(uint32_t worker) { return logs_[worker]; }

    /// What a checkpoint has at least that is asked for now.
    [[nodiscard]] Bounds bounds_now() const;
    /// What one has at most that has ended now.
    void note_most(Bounds& bounds) const;

    /// A worker's pull of all keys of a round's table has shown these values: `least` iterations everywhere.
    static void check_round(const Round& round, const std::vector<uint64_t>& values, uint64_t least,
                            uint64_t most);
    /// All tables as some worker sees them, after the last call.
    void check_all(SimCluster& cluster, uint32_t worker) const;
    /// A job has gone on from this checkpoint: it has all that the bounds say. From now on that is what counts.
    void resume(SimCluster& cluster, const checkpoint::Manifest& manifest, const Bounds& bounds);

private:
    static uint64_t iterations_in(const Round& round, uint64_t key, uint64_t value, uint64_t most);
    static uint64_t count_in_log(SimCluster& cluster, uint32_t worker, const TableInfo& table,
                                 uint32_t of, uint64_t begun);

    Layout layout_;
    uint64_t job_ = 1;
    size_t first_round_ = 0;  ///< of this job, in `rounds_`
    std::deque<Round> rounds_;
    std::array<Log, kWorkersMax> logs_;
};

}  // namespace weir::test

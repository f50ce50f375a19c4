// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// PushingJob: a job on a simulated network whose workers push what can be added up afterwards.

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "lib/base/random.h"
#include "tests/cluster/sim_cluster.h"

namespace weir::test {

inline constexpr uint64_t kRoundKeys = 150;
inline constexpr uint64_t kLogKeys = 100'000;  ///< for the pushes of one worker
inline constexpr uint32_t kWorkersMax = 3;

/// What a worker pushes to a key in an iteration.
[[nodiscard]] uint64_t part(uint64_t worker, uint64_t iteration, uint64_t key);

/// Tables to which a worker pushes one number after the other: to the second one so seldom that most of
/// its chunks do not change from one checkpoint to the next.
inline constexpr std::array<const char*, 2> kLogs = {"log", "quiet log"};

using LogCounts = std::array<std::vector<uint64_t>, kLogs.size()>;  ///< by worker

[[nodiscard]] std::vector<uint64_t> all_keys(uint64_t count);

[[nodiscard]] std::vector<uint64_t> pull(SimCluster& cluster, const TableInfo& table,
                                         const std::vector<uint64_t>& keys);

/// Workers push iterations to one table, and one number after the other to their part of another.
///
/// Thread: one
class PushingJob {
public:
    PushingJob(Random& random, const SimShape& shape, const transport::sim::Options& network,
               Layout layout, uint32_t max_delay);

    void step();

    struct Worker {
        struct Open {
            ClientCore::CallId call = 0;
            std::vector<uint64_t> keys;
            std::vector<uint64_t> values;
        };

        struct Log {
            TableInfo table;
            uint64_t logged = 0;   ///< pushes that were acknowledged
            uint64_t started = 0;  ///< and those that were started
            std::optional<Open> push;
        };

        TableInfo rounds;
        std::array<Log, kLogs.size()> logs;
        uint64_t period = 1;
        uint64_t next = 1;          ///< iteration
        uint64_t acknowledged = 0;  ///< iterations
        uint64_t window = 1;
        std::deque<Open> open;  ///< iterations
    };

    [[nodiscard]] SimCluster& cluster() { return cluster_; }

    [[nodiscard]] std::vector<Worker>& workers() { return workers_; }

private:
    void settle(uint32_t i);
    void push(uint32_t i);
    void push_iteration(uint32_t i);

    Random& random_;
    SimCluster cluster_;
    std::vector<Worker> workers_;
};

}  // namespace weir::test

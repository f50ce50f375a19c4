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

/// A key's value when an iteration, of which there are no holes, adds these parts of all workers: its rule
/// sees the whole row, and what has become of it depends on the order and the arguments of iterations.
[[nodiscard]] uint64_t with_iteration(uint64_t value, uint64_t key, uint64_t iteration,
                                      uint64_t parts);

/// Tables to which a worker pushes one number after the other: to the second one so seldom that most of
/// its chunks do not change from one checkpoint to the next.
inline constexpr std::array<const char*, 2> kLogs = {"log", "quiet log"};

/// What the keys of the second one begin with.
inline constexpr InitialValue kLogBegin = normal(0, 0.1, 5);

using LogCounts = std::array<std::vector<uint64_t>, kLogs.size()>;  ///< by worker

/// An erasable table of narrow values. Each worker has kEndingKeys keys of its own, which it pushes and erases
/// in turns: when it begins anew, some are there and some are not.
inline constexpr const char* kEndings = "endings";
inline constexpr uint64_t kEndingKeys = 48;
inline constexpr float kEndingValue = 1.5F;  ///< of all that is pushed

/// Which of a worker's keys have rows when so many of its changes have taken effect.
[[nodiscard]] std::vector<bool> written_after(uint64_t changes);

/// How many of the keys a worker has pushed; the others are checked to be as they began.
[[nodiscard]] size_t count_logged(size_t log, const std::vector<uint64_t>& keys,
                                  const std::vector<uint64_t>& values);

[[nodiscard]] std::vector<uint64_t> all_keys(uint64_t count);

[[nodiscard]] std::vector<uint64_t> pull(SimCluster& cluster, const TableInfo& table,
                                         const std::vector<uint64_t>& keys);

/// Workers push iterations to one table, one number after the other to their part of others, and push and
/// erase their part of one more.
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
        Log endings;
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
    void change_endings(uint32_t i);
    void push_iteration(uint32_t i);

    Random& random_;
    SimCluster cluster_;
    std::vector<Worker> workers_;
};

}  // namespace weir::test

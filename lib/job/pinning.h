// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Pinning: which CPU each shard of this process is pinned to, on which NUMA node its tables lie,
/// and whether threads have CPUs of their own. Workers' threads belong to the trainer and stay
/// where the launcher put them.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/config.h"
#include "lib/base/machine/topology.h"
#include "lib/base/result.h"

namespace weir {

/// The values of WEIR_PIN.
enum class PinPolicy : uint8_t {
    kAuto,    ///< pin if this host has a CPU for each of the job's threads on it
    kAlways,  ///< pin; shards share CPUs if there are not enough
    kNever,
};

/// Errors: as Config::choice()
[[nodiscard]] Result<PinPolicy> pin_policy(const Config& config);

/// What a rank publishes to the ranks of its host, so that all of them make the same choice; and what they know
/// of it without that.
struct RankThreads {
    std::string host;          ///< equal on ranks of one host
    uint32_t shard_count = 0;  ///< threads that may be pinned
    uint32_t worker_count = 0;
    std::vector<int> cpus;  ///< that the rank may use, best first: one per core, then siblings

    // not published
    uint32_t rank = 0;
    uint32_t manager_count = 0;  ///< 1: a manager runs in this rank

    [[nodiscard]] std::string encode() const;
    /// Nothing if `text` is malformed.
    [[nodiscard]] static std::optional<RankThreads> decode(std::string_view text);
};

/// The CPUs of the shards of ranks[self]; empty if they are not to be pinned. `ranks` are all
/// ranks of one host in the order of their numbers. A shard takes the CPU of its rank that the
/// fewest shards before it have; of several such CPUs, the first. Under kAuto, no rank is pinned
/// if the job has more threads here than CPUs. Nor is a rank that has more threads than CPUs of
/// its own, or that its launcher has bound to one CPU.
[[nodiscard]] std::vector<int> choose_cpus(std::span<const RankThreads> ranks, size_t self,
                                           PinPolicy policy);

/// True if threads of the job have to take turns on the CPUs that ranks[self] may use: the job has
/// more threads on this host than CPUs, or the ranks that may use no other CPUs than ranks[self]
/// have. A thread that spins there holds up the one that it waits for. `ranks` as in
/// choose_cpus(). The manager does not count, because it sleeps while workers train.
[[nodiscard]] bool threads_share_cpus(std::span<const RankThreads> ranks, size_t self);

/// The store pools of a process: one for every NUMA node that its shards run on.
struct StorePlan {
    std::vector<int> nodes;  ///< of each pool; kCurrentNode: where the thread runs that makes it
    std::vector<size_t> pool_of_shard;  ///< index into `nodes`
};

/// Plans the pools for `cpus`, as from choose_cpus(). There is one pool, where the process runs,
/// if the machine has one node, if shards are not pinned, or if the node of a CPU is unknown.
[[nodiscard]] StorePlan plan_store_pools(std::span<const NumaNode> nodes, std::span<const int> cpus,
                                         size_t shard_count);

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Pinning: which CPU each shard of this process is pinned to, and on which NUMA node its tables
/// lie. Workers' threads belong to the trainer and stay where the launcher put them.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/config.h"
#include "lib/base/result.h"
#include "lib/base/topology.h"

namespace weir {

/// WEIR_PIN.
enum class PinPolicy : uint8_t {
    kAuto,    ///< pin if there is a CPU for every thread of the job on this host
    kAlways,  ///< pin; shards share CPUs if there are not enough
    kNever,
};

/// Errors: as Config::choice()
[[nodiscard]] Result<PinPolicy> pin_policy(const Config& config);

/// What a rank tells the others of its host, so that all of them come to the same choice.
struct RankThreads {
    std::string host;          ///< equal on ranks of one host
    uint32_t shard_count = 0;  ///< threads that are pinned
    uint32_t other_count = 0;  ///< workers, and the manager
    std::vector<int> cpus;     ///< that the rank may use, best first: a core each, then siblings

    [[nodiscard]] std::string encode() const;
    /// Nothing if it is malformed.
    [[nodiscard]] static std::optional<RankThreads> decode(std::string_view text);
};

/// The CPUs of the shards of ranks[self], or none if they are not to be pinned. `ranks` are all
/// ranks of one host in the order of their numbers: a shard takes the first of its rank's CPUs that
/// no shard before it has, or the one that the fewest have. Under kAuto nobody is pinned if the
/// job's threads are more than its CPUs here, nor a rank with more threads than CPUs of its own,
/// nor one that its launcher has bound to a single CPU already.
[[nodiscard]] std::vector<int> choose_cpus(std::span<const RankThreads> ranks, size_t self,
                                           PinPolicy policy);

/// The store pools of a process: one for every NUMA node that its shards run on.
struct StorePlan {
    std::vector<int> nodes;             ///< of each pool; kCurrentNode: of the thread that makes it
    std::vector<size_t> pool_of_shard;  ///< index into `nodes`
};

/// `cpus` as from choose_cpus(). A machine of one node, shards that are not pinned, or a CPU of no
/// known node: one pool where the process runs.
[[nodiscard]] StorePlan plan_store_pools(std::span<const NumaNode> nodes, std::span<const int> cpus,
                                         size_t shard_count);

}  // namespace weir

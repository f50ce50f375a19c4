// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// HostThreads: the threads of the job's ranks on this host, and which CPUs those of this process take.
/// pinning.h makes the choices, from what is gathered here.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/config.h"
#include "lib/base/machine/topology.h"
#include "lib/base/result.h"
#include "lib/bootstrap/bootstrap.h"
#include "lib/job/pinning.h"

namespace weir {

/// Before find_ranks(), it knows the threads of this process only.
///
/// Thread: one
class HostThreads {
public:
    /// How many threads this process has.
    struct Counts {
        uint32_t shards = 0;
        uint32_t workers = 0;
    };

    /// Errors: those of pin_policy()
    [[nodiscard]] static Result<HostThreads> of_this_process(const Config& config,
                                                             const Counts& counts);

    /// For the next exchange. Errors: those of the bootstrap
    [[nodiscard]] Status publish(Bootstrap& bootstrap) const;
    /// Takes what the other ranks have published. After the exchange.
    /// Errors: those of the bootstrap
    [[nodiscard]] Status find_ranks(Bootstrap& bootstrap);

    /// Of all ranks, by rank, as boot::this_host_id(). After find_ranks()
    [[nodiscard]] const std::vector<std::string>& hosts() const noexcept { return hosts_; }

    /// The ranks that have a thread of a manager, too. After find_ranks()
    void add_managers(std::span<const uint32_t> manager_ranks);
    /// The CPUs that rank 0, the first server, may use; none if it runs on another host. After the
    /// exchange.
    /// Errors: those of the bootstrap
    [[nodiscard]] Result<std::vector<int>> cpus_of_rank_0(Bootstrap& bootstrap) const;

    /// As far as it knows the ranks of this host.
    [[nodiscard]] bool share_cpus() const { return threads_share_cpus(ranks_, self_); }

    /// Once the ranks of this host are known.
    void choose_cpus_of_shards();

    /// `shard`: of this process, from 0. Nothing: it is not pinned.
    [[nodiscard]] std::optional<int> cpu_of_shard(size_t shard) const;
    [[nodiscard]] StorePlan plan_stores() const;

private:
    [[nodiscard]] const RankThreads& self() const { return ranks_[self_]; }

    PinPolicy policy_ = PinPolicy::kNever;
    /// Of this host, in the order of their numbers.
    std::vector<RankThreads> ranks_ = std::vector<RankThreads>(1);
    size_t self_ = 0;  ///< this rank in `ranks_`
    std::vector<std::string> hosts_;
    std::vector<NumaNode> nodes_;  ///< of this machine, if shards may be pinned
    std::vector<int> shard_cpus_;  ///< of this process; none: its shards are not pinned
};

}  // namespace weir

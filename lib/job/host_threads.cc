// SPDX-License-Identifier: Apache-2.0
#include "lib/job/host_threads.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/log.h"
#include "lib/base/machine/sys_file.h"
#include "lib/bootstrap/rendezvous/rendezvous.h"

namespace weir {
namespace {

constexpr std::string_view kThreadsKey = "weir-threads";

/// What `rank` has published; nothing if it is malformed.
Result<std::optional<RankThreads>> threads_of(Bootstrap& bootstrap, uint32_t rank) {
    WEIR_ASSIGN(const std::string text, bootstrap.get(rank, kThreadsKey));
    return RankThreads::decode(text);
}

}  // namespace

Result<HostThreads> HostThreads::of_this_process(const Config& config, const Counts& counts) {
    HostThreads threads;
    WEIR_ASSIGN(threads.policy_, pin_policy(config));
    RankThreads& mine = threads.ranks_[0];
    mine.host = boot::this_host_id();
    mine.shard_count = counts.shards;
    mine.worker_count = counts.workers;
    if (threads.policy_ == PinPolicy::kNever || mine.shard_count == 0) {
        mine.cpus = allowed_cpus();
    } else {
        Topology topology = read_topology();
        mine.cpus = cpus_for_threads(topology, topology.allowed_cpus.size());
        if (mine.cpus.empty()) mine.cpus = topology.allowed_cpus;  // cores are not known
        threads.nodes_ = std::move(topology.nodes);
    }
    return threads;
}

Status HostThreads::publish(Bootstrap& bootstrap) const {
    return bootstrap.put(kThreadsKey, self().encode());
}

Status HostThreads::find_ranks(Bootstrap& bootstrap) {
    RankThreads own = std::move(ranks_[self_]);
    ranks_.clear();
    for (uint32_t rank = 0; rank < bootstrap.size(); ++rank) {
        if (rank == bootstrap.rank()) {
            self_ = ranks_.size();
            ranks_.push_back(own);
            ranks_.back().rank = rank;
            hosts_.push_back(own.host);
            continue;
        }
        WEIR_ASSIGN(std::optional<RankThreads> threads, threads_of(bootstrap, rank));
        hosts_.push_back(threads ? threads->host : std::string());
        if (!threads || threads->host != own.host) continue;
        ranks_.push_back(std::move(*threads));
        ranks_.back().rank = rank;
    }
    return {};
}

void HostThreads::add_managers(std::span<const uint32_t> manager_ranks) {
    for (RankThreads& rank : ranks_)
        rank.manager_count = std::ranges::count(manager_ranks, rank.rank) > 0 ? 1 : 0;
}

Result<std::vector<int>> HostThreads::cpus_of_rank_0(Bootstrap& bootstrap) const {
    WEIR_ASSIGN(std::optional<RankThreads> threads, threads_of(bootstrap, 0));
    if (!threads || threads->host != self().host) return std::vector<int>();
    return std::move(threads->cpus);
}

void HostThreads::choose_cpus_of_shards() {
    if (policy_ == PinPolicy::kNever || self().shard_count == 0) return;
    shard_cpus_ = choose_cpus(ranks_, self_, policy_);
    if (!shard_cpus_.empty()) {
        log(LogLevel::kDebug, "shards of this process are pinned to CPUs {}",
            cpu_list_text(shard_cpus_));
    }
}

std::optional<int> HostThreads::cpu_of_shard(size_t shard) const {
    if (shard_cpus_.empty()) return std::nullopt;
    return shard_cpus_[shard];
}

StorePlan HostThreads::plan_stores() const {
    return plan_store_pools(nodes_, shard_cpus_, self().shard_count);
}

}  // namespace weir

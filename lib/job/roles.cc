// SPDX-License-Identifier: Apache-2.0
#include "lib/job/roles.h"

#include <chrono>

#include <fmt/core.h>

#include "lib/base/machine/topology.h"
#include "lib/consensus/replicated_log.h"
#include "lib/job/managers.h"
#include "lib/ring/view_data.h"

namespace weir {
namespace {

constexpr uint32_t kCountMax = 4096;
constexpr uint32_t kReplicasMax = 2;
/// Several signs of life come within the shorter one (lease_line.h).
constexpr std::chrono::seconds kWorkLeaseMin(5);
constexpr std::chrono::seconds kWorkLeaseMax(86'400);
/// Beyond this, a job does not start: each thread polls, and passes would take minutes instead of
/// milliseconds.
constexpr size_t kThreadsPerCpuMax = 100;

Status check_count(const char* option, uint32_t count) {
    if (count >= 1 && count <= kCountMax) return {};
    return Error(Errc::kInvalidArgument,
                 fmt::format("`{}` {}: must be between 1 and {}", option, count, kCountMax));
}

Status check_replicas(const JobOptions& options) {
    if (options.replicas > kReplicasMax) {
        return Error(Errc::kInvalidArgument, fmt::format("`replicas` {}: must be between 0 and {}",
                                                         options.replicas, kReplicasMax));
    }
    if (options.replicas == 0 || options.replicas < options.servers) return {};
    return Error(
        Errc::kInvalidArgument,
        fmt::format("`replicas` {} needs at least {} servers, because a copy lies on another "
                    "server; the job has `servers` {}",
                    options.replicas, options.replicas + 1, options.servers));
}

Status check_work_lease(const JobOptions& options) {
    const std::chrono::nanoseconds lease = options.work_lease;
    if (lease == lease.zero() || (lease >= kWorkLeaseMin && lease <= kWorkLeaseMax)) return {};
    return Error(Errc::kInvalidArgument,
                 fmt::format("`work_lease` {}: must be 0 (a worker is waited for without end), or "
                             "between {} and {} seconds",
                             std::chrono::duration<double>(lease).count(), kWorkLeaseMin.count(),
                             kWorkLeaseMax.count()));
}

/// Each of them needs a process of its own.
Status check_managers(const JobOptions& options, uint32_t size) {
    const uint32_t count = options.managers;
    if (count == 1) return {};
    if (count == 0 || count % 2 == 0 || count > Managers::kCountMax) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("`managers` {}: must be 1, 3, 5 or {}: most of them must live",
                                 count, Managers::kCountMax));
    }
    if (!consensus::have_replicated_log()) {
        return Error(Errc::kUnavailable,
                     fmt::format("`managers` {}: this build of Weir has no libraft, and so one "
                                 "manager only; install libraft-dev and build it anew",
                                 count));
    }
    const uint32_t servers = size == 1 ? 1 : options.servers;
    if (count <= servers) return {};
    return Error(Errc::kInvalidArgument,
                 fmt::format("`managers` {0} needs at least {0} processes with servers, because "
                             "each has one manager; the job has {1}",
                             count, servers));
}

/// Whether the ring has room for all shards.
Status check_shard_count(const JobOptions& options) {
    const uint64_t shards = uint64_t{options.servers} * options.shards_per_server;
    if (shards <= ViewLimits::kShardsMax) return {};
    return Error(
        Errc::kInvalidArgument,
        fmt::format(
            "`servers` {} with `shards_per_server` {}: {} shards are more than the {} that a "
            "job may have; use fewer",
            options.servers, options.shards_per_server, shards, ViewLimits::kShardsMax));
}

}  // namespace

Result<Roles> plan_roles(const JobOptions& options, uint32_t rank, uint32_t size) {
    WEIR_TRY(check_count("servers", options.servers));
    WEIR_TRY(check_count("shards_per_server", options.shards_per_server));
    WEIR_TRY(check_count("workers", options.workers));
    WEIR_TRY(check_replicas(options));
    WEIR_TRY(check_managers(options, size));
    WEIR_TRY(check_work_lease(options));
    Roles roles;
    JobShape& shape = roles.shape;
    shape.rank = rank;
    shape.size = size;
    shape.server_count = options.servers;
    const bool alone = size == 1;
    if (!alone && options.servers + (options.colocate ? 0 : 1) > size) {
        return Error(
            Errc::kInvalidArgument,
            fmt::format("`servers` {} needs at least {} ranks, but the job has {}; start more "
                        "ranks, or ask for fewer servers",
                        options.servers, options.servers + (options.colocate ? 0 : 1), size));
    }
    WEIR_TRY(check_shard_count(options));
    const uint32_t first_working_rank = alone || options.colocate ? 0 : options.servers;
    shape.worker_count = (size - first_working_rank) * options.workers;
    for (uint32_t server = 0; server < options.servers; ++server) {
        roles.server_ranks.push_back(alone ? 0 : server);
    }
    for (uint32_t worker = 0; worker < shape.worker_count; ++worker) {
        roles.worker_ranks.push_back(first_working_rank + worker / options.workers);
    }
    shape.is_server = alone || rank < options.servers;
    roles.first_server = alone ? 0 : rank;
    roles.local_servers = !shape.is_server ? 0 : alone ? options.servers : 1;
    shape.local_workers = rank >= first_working_rank ? options.workers : 0;
    shape.first_worker =
        shape.local_workers == 0 ? 0 : (rank - first_working_rank) * options.workers;
    return roles;
}

Status check_thread_count(const JobOptions& options, const Roles& roles) {
    const size_t shards = size_t{roles.local_servers} * options.shards_per_server;
    const size_t workers = roles.shape.local_workers;
    const size_t cpus = allowed_cpus().size();
    if (shards + workers <= kThreadsPerCpuMax * cpus) return {};
    return Error(
        Errc::kInvalidArgument,
        fmt::format(
            "{} threads of shards and {} of workers in one process are more than {} for "
            "each of its {} CPUs; use fewer `shards_per_server`, `servers` or `workers`, or more "
            "processes",
            shards, workers, kThreadsPerCpuMax, cpus));
}

}  // namespace weir

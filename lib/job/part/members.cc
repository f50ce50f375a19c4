// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "lib/base/fnv.h"
#include "lib/base/log.h"
#include "lib/base/machine/os_limits.h"
#include "lib/base/machine/topology.h"
#include "lib/bootstrap/rendezvous/rendezvous.h"
#include "lib/job/part/job_part.h"
#include "lib/worker/client_state.h"

namespace weir {
namespace {

constexpr size_t kShardsPerCpu = 16;  // beyond this, a warning is logged

}  // namespace

size_t Job::Part::local_shard_count() const {
    return size_t{roles_.local_servers} * options_.shards_per_server;
}

Result<HostThreads> Job::Part::threads_of_this_process() const {
    HostThreads::Counts counts;
    counts.shards = static_cast<uint32_t>(local_shard_count());
    counts.workers = roles_.shape.local_workers;
    return HostThreads::of_this_process(config_, counts);
}

Status Job::Part::start_lines() {
    WEIR_TRY(lines_.start_life_line(*devices_));
    return lines_.start_lease_line(*devices_, local_shard_count() > 0);
}

/// Its thread sleeps until somebody connects.
void Job::Part::start_rendezvous(std::unique_ptr<boot::OpenRendezvous> rendezvous) {
    rendezvous_ = std::make_unique<Runtime>(IdleOptions{.spin_ns = 0, .yield_ns = 0});
    (void)rendezvous_->run(std::make_unique<RendezvousMachine>(std::move(rendezvous)));
}

Status Job::Part::start_shards() {
    if (local_shard_count() == 0) return {};
    if (disk_ == nullptr) start_disk();
    if (const size_t cpus = allowed_cpus().size(); local_shard_count() > kShardsPerCpu * cpus) {
        log(LogLevel::kWarning,
            "the {} shards of this process, each a thread, share {} CPUs, which is slow; use fewer "
            "shards",
            local_shard_count(), cpus);
    }
    const StorePlan stores = threads_.plan_stores();
    WEIR_TRY(devices_->make_store_pools(config_, stores.nodes));
    for (size_t shard = 0; shard < local_shard_count(); ++shard) {
        WEIR_ASSIGN(std::unique_ptr<transport::Endpoint> endpoint, devices_->make_endpoint());
        auto machine =
            std::make_unique<Shard>(shard_options(stores, shard), std::move(endpoint), clock_,
                                    devices_->store_memory(stores.pool_of_shard[shard]), rules_);
        serving_->add_shard(runtime_->run(std::move(machine), threads_.cpu_of_shard(shard)));
    }
    return {};
}

void Job::Part::start_disk() {
    disk_ = std::make_unique<DiskThread>(join_ ? "this server"
                                               : fmt::format("rank {}", roles_.shape.rank));
}

/// `shard`: of this process, from 0.
ShardOptions Job::Part::shard_options(const StorePlan& stores, size_t shard) {
    ShardOptions options;
    options.number =
        roles_.first_server * options_.shards_per_server + static_cast<uint32_t>(shard);
    options.rank = roles_.shape.rank;
    const std::string host = boot::this_host_id();
    options.host = fnv1a(host);
    options.host_name = boot::host_name(host);
    options.manager_address = lines_.address();
    options.link = lines_.make_link();
    options.join = join_;
    options.lease = lines_.lease();
    options.disk = disk_->queue();
    options.checkpoint_folder = checkpoints_.options.folder;
    options.lending.memory = &devices_->lent_memory();
    const size_t pool = stores.pool_of_shard[shard];
    options.list_cache_bytes = devices_->store_cache_bytes(pool) /
                               static_cast<size_t>(std::ranges::count(stores.pool_of_shard, pool));
    return options;
}

Result<Client> Job::Part::make_client(uint32_t i) {
    if (i >= roles_.shape.local_workers) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("this process has {} workers, numbered from 0, and no worker {}",
                                 roles_.shape.local_workers, i));
    }
    if (has_client(i)) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("worker {} of this process has had its client: make_client() is "
                                 "called once for each worker, and run_workers() once for all",
                                 i));
    }
    ClientCoreOptions options;
    options.worker = roles_.shape.first_worker + i;
    options.rank = roles_.shape.rank;
    options.joiner = joiner_;
    options.has_iterations = has_iterations_;
    options.manager_address = lines_.address();
    options.link = lines_.make_link();
    if (!options_.checkpoint_folder.empty()) {
        WEIR_ASSIGN(options.checkpoint_folder, absolute_folder(options_.checkpoint_folder));
    }
    WEIR_ASSIGN(const uint64_t timeout_s, config_.number("WEIR_JOIN_TIMEOUT_S"));
    options.join_timeout_ns = (timeout_s + 5) * kSecond;  // the manager can name missing ranks
    WEIR_ASSIGN(const uint64_t deadline_ms, config_.number("WEIR_DEADLINE_MS"));
    options.deadline_ns = deadline_ms * kMillisecond;
    WEIR_ASSIGN(options.eager_bytes, config_.number("WEIR_EAGER_BYTES"));
    WEIR_ASSIGN(std::unique_ptr<transport::Endpoint> endpoint, devices_->make_endpoint());
    WEIR_ASSIGN(std::shared_ptr<Memory> pool, Devices::worker_pool(devices_));
    options.route_cache_bytes = devices_->worker_cache_bytes() / roles_.shape.local_workers;
    auto core = std::make_unique<ClientCore>(std::move(options), std::move(endpoint), clock_, *pool,
                                             rules_);
    auto state = std::make_shared<ClientState>(std::move(core), std::move(pool),
                                               Devices::registrar(devices_), idle_);
    WEIR_TRY(state->join());
    const std::lock_guard lock(clients_mutex_);
    clients_made_.insert(i);
    return Client(std::move(state));
}

bool Job::Part::has_client(uint32_t i) {
    const std::lock_guard lock(clients_mutex_);
    return clients_made_.contains(i);
}

Status Job::Part::serve(const std::function<bool()>& wants_to_leave,
                        const std::function<bool()>& must_end) {
    Status outcome = serving_->serve(wants_to_leave, must_end);
    if (!serving_->has_manager()) rendezvous_.reset();  // the job is over
    return outcome;
}

}  // namespace weir

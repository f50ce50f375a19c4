// SPDX-License-Identifier: Apache-2.0
#include "lib/job/open_files.h"

#include <algorithm>

#include "lib/base/machine/os_limits.h"

namespace weir {

namespace {

constexpr uint64_t kOfEndpoint = 1;              // with several transports: what it sleeps on
constexpr uint64_t kOfEndpointAndTransport = 4;  // listener, timer, doorbell, and to sleep on
constexpr uint64_t kOfProcess = 24;              // files, pipes, and what is open for a moment
constexpr uint64_t kLines = 2;                   // endpoints, and connections to each manager

uint64_t count_others(const std::vector<uint32_t>& ranks, uint32_t rank) noexcept {
    return ranks.size() - static_cast<uint64_t>(std::ranges::count(ranks, rank));
}

}  // namespace

uint64_t needed_open_files(const Roles& roles, const OpenFilesPlan& plan) noexcept {
    const JobShape& shape = roles.shape;
    const uint64_t shards =
        shape.is_server ? uint64_t{roles.local_servers} * plan.shards_per_server : 0;
    const uint64_t workers = shape.local_workers;
    const uint64_t managers = shape.has_manager ? 1 : 0;
    const uint64_t far_shards =
        count_others(roles.server_ranks, shape.rank) * plan.shards_per_server;
    const uint64_t far_workers = count_others(roles.worker_ranks, shape.rank);
    const uint64_t far_managers = plan.managers - managers;
    const uint64_t far_processes = shape.size - 1;

    uint64_t connections = shards * far_workers + workers * far_shards;
    // Streams to copies and from what they copy.
    connections += 2 * std::min<uint64_t>(plan.replicas, far_shards) * shards;
    // Members know every manager; managers know each other, by two endpoints.
    connections += managers * (far_workers + far_shards + kLines * far_processes + far_managers);
    connections += far_managers * (workers + shards + kLines);
    if (!plan.maps_memory) {  // both ends are here
        connections += 2 * (shards * workers + managers * (workers + shards + kLines));
        connections += 2 * std::min<uint64_t>(plan.replicas, shards) * shards;
    }
    const uint64_t endpoints = shards + workers + 2 * managers + kLines;
    return connections + (plan.maps_memory ? far_processes : 0) + kOfProcess +
           endpoints * (kOfEndpoint + kOfEndpointAndTransport * plan.transports);
}

Status reserve_files(const JobOptions& options, const Roles& roles, const Devices& devices) {
    OpenFilesPlan plan;
    plan.replicas = options.replicas;
    plan.shards_per_server = options.shards_per_server;
    plan.managers = options.managers;
    plan.transports = devices.count();
    plan.maps_memory = devices.has_shm();
    return reserve_open_files(needed_open_files(roles, plan), kSpareFiles);
}

}  // namespace weir

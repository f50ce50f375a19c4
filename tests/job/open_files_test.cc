// SPDX-License-Identifier: Apache-2.0
#include "lib/job/open_files.h"

#include <doctest/doctest.h>

namespace weir {
namespace {

uint64_t needed(const JobOptions& options, uint32_t rank, uint32_t size, bool maps_memory = true) {
    Roles roles = plan_roles(options, rank, size).value();
    roles.shape.has_manager = rank == 0;
    OpenFilesPlan plan;
    plan.replicas = options.replicas;
    plan.shards_per_server = options.shards_per_server;
    plan.transports = 2;
    plan.maps_memory = maps_memory;
    return needed_open_files(roles, plan);
}

}  // namespace

TEST_SUITE("open files") {
    TEST_CASE("a server needs one for each shard and worker, and a worker one for each shard") {
        JobOptions options;
        options.servers = 1;
        options.shards_per_server = 4;
        // Four shards, the manager, its two lines and the process.
        CHECK(needed(options, 0, 11) - needed(options, 0, 10) == 4 + 3 + 1);
        CHECK(needed(options, 1, 11) - needed(options, 1, 10) == 1);  // the process
        options.servers = 3;
        const uint64_t before = needed(options, 9, 10);
        options.shards_per_server = 5;
        CHECK(needed(options, 9, 10) - before == 3);
    }

    TEST_CASE("within a process connections need none over shm, and two over other transports") {
        JobOptions options;
        options.servers = 1;
        options.shards_per_server = 2;
        options.workers = 3;
        const uint64_t with_shm = needed(options, 0, 1, true);
        // Of 3 workers with 2 shards, and of both and two lines of the process with the manager.
        CHECK(needed(options, 0, 1, false) - with_shm == 2 * (3 * 2 + 3 + 2 + 2));
    }
}

}  // namespace weir

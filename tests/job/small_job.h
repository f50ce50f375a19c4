// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Jobs of few and small processes in this one, over shared memory.

#include <cstdint>
#include <memory>

#include <doctest/doctest.h>

#include "lib/weir.h"

namespace weir::test {

inline Config small_pools() {
    return Config(Environment(Environment::Map{{"WEIR_POOL_MIB", "16"}}));
}

inline std::unique_ptr<Job> start_job(JobOptions options) {
    auto job = Job::start(options, small_pools());
    REQUIRE(job.has_value());
    return std::move(*job);
}

inline std::unique_ptr<Job> start_job(uint32_t servers, uint32_t shards, uint32_t workers) {
    JobOptions options;
    options.servers = servers;
    options.shards_per_server = shards;
    options.workers = workers;
    return start_job(options);
}

inline TableOptions dense_options(uint64_t keys) {
    TableOptions options;
    options.layout = Layout::kDense;
    options.key_count = keys;
    return options;
}

}  // namespace weir::test

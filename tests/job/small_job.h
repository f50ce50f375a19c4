// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Jobs of few and small processes in this one, over shared memory.

#include <cstdint>
#include <memory>
#include <utility>

#include <doctest/doctest.h>

#include "lib/base/config.h"
#include "lib/node/runtime.h"
#include "lib/weir.h"

namespace weir::test {

inline Config small_pools(Environment::Map variables = {}) {
    variables.emplace("WEIR_POOL_MIB", "16");
    return Config(Environment(std::move(variables)));
}

inline std::unique_ptr<Job> start_job(JobOptions options, Environment::Map variables = {}) {
    auto job = Job::start(options, small_pools(std::move(variables)));
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

/// Runs `work(i)` in a thread for each worker of the process: for tests that make the clients themselves.
template <class Work>
void each_worker(const Job& job, const Work& work) {
    Runtime threads(IdleOptions{});
    for (uint32_t i = 0; i < job.shape().local_workers; ++i)
        threads.run([&work, i] { work(i); });
    threads.join();
}

inline TableOptions dense_options(uint64_t keys) {
    TableOptions options;
    options.layout = Layout::kDense;
    options.key_count = keys;
    return options;
}

}  // namespace weir::test

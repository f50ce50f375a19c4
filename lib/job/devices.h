// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Devices: the transports of this process as one, and the memory pools registered with them.

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "lib/base/config.h"
#include "lib/base/result.h"
#include "lib/store/memory.h"
#include "lib/worker/client_state.h"
#include "transport/net/secret.h"
#include "transport/pool/memory_pool.h"
#include "transport/transport.h"

namespace weir {

/// Of every endpoint of a job: messages as long as WEIR_EAGER_BYTES wants them.
/// Errors: kInvalidArgument naming that
[[nodiscard]] Result<transport::EndpointOptions> endpoint_options(const Config& config);

/// Thread: any.
class Devices {
public:
    /// Opens what WEIR_TRANSPORT allows and this machine has. Connecting to a peer may take as
    /// long as WEIR_JOIN_TIMEOUT_S says.
    /// Errors: kUnavailable: a transport that was asked for by name cannot be used, and why
    [[nodiscard]] static Result<std::shared_ptr<Devices>> open(const Config& config,
                                                               const transport::Secret& secret,
                                                               bool other_ranks);
    ~Devices();
    Devices(const Devices&) = delete;
    Devices& operator=(const Devices&) = delete;

    [[nodiscard]] Result<std::unique_ptr<transport::Endpoint>> make_endpoint();
    /// "shm, verbs".
    [[nodiscard]] std::string names() const;

    /// Makes the pools for parameters, and for what shards fetch, which no peer ever reaches: one
    /// on each of `nodes`. Once, before shards are made. Errors: kNoMemory with what to do;
    /// kInvalidArgument naming WEIR_POOL_MIB or WEIR_HUGE_PAGES
    [[nodiscard]] Status make_store_pools(const Config& config, std::span<const int> nodes);

    /// A part of the pool of nodes[pool], with counters of its own: one for every shard.
    [[nodiscard]] Memory& store_memory(size_t pool);
    /// What caches in the pool of nodes[pool] may take together.
    [[nodiscard]] size_t store_cache_bytes(size_t pool) const;

    /// For what workers push from and pull into: servers read and write it. All clients of the
    /// process share one pool; what is returned has counters of its own.
    [[nodiscard]] static Result<std::shared_ptr<Memory>> worker_pool(
        const std::shared_ptr<Devices>& devices);
    /// What caches in it may take together; once there is a worker_pool().
    [[nodiscard]] size_t worker_cache_bytes() const;
    [[nodiscard]] static std::shared_ptr<MemoryRegistrar> registrar(
        std::shared_ptr<Devices> devices);

private:
    Devices() = default;

    std::string names_;
    std::unique_ptr<transport::Device> device_;
    transport::EndpointOptions endpoint_options_;
    transport::PoolOptions worker_pool_options_;
    mutable std::mutex mutex_;  ///< guards the worker pool's making
    std::vector<std::unique_ptr<transport::MemoryPool>> store_pools_;
    std::unique_ptr<transport::MemoryPool> worker_pool_;
    bool worker_pool_is_told_ = false;  ///< somebody's Memory::use() has it
    std::vector<std::vector<std::unique_ptr<Memory>>> store_memories_;  ///< of each store pool
};

}  // namespace weir

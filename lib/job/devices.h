// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Devices: the transports of this process as one, and the memory pools registered with them.

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/config.h"
#include "lib/base/result.h"
#include "lib/store/memory.h"
#include "lib/worker/client_state.h"
#include "transport/net/secret.h"
#include "transport/net/socket_address.h"
#include "transport/pool/memory_pool.h"
#include "transport/transport.h"

namespace weir {

/// The options of every endpoint of a job: messages have room for WEIR_EAGER_BYTES.
/// Errors: kInvalidArgument naming WEIR_EAGER_BYTES
[[nodiscard]] Result<transport::EndpointOptions> endpoint_options(const Config& config);

/// Thread: any; the store pools only while shards are being made, in one thread
class Devices {
public:
    /// Opens the transports that WEIR_TRANSPORT allows and this machine has; verbs and tcp by
    /// default only if there are or may be `others`, processes of the same job. Connecting to a peer may take up to WEIR_JOIN_TIMEOUT_S.
    /// `reached_at`: the address of this host that tcp gives to others, unless WEIR_BIND says which;
    /// unset: that of the default route.
    /// Errors: kInvalidArgument naming WEIR_BIND
    /// Errors: kUnavailable: a transport that was asked for by name cannot be used, and why
    [[nodiscard]] static Result<std::shared_ptr<Devices>> open(
        const Config& config, const transport::Secret& secret, bool others,
        const transport::SocketAddress& reached_at = {});
    /// Opens the one `transport`, shm, verbs or tcp, whatever WEIR_TRANSPORT says.
    /// Errors: as open(), without advice about WEIR_TRANSPORT
    [[nodiscard]] static Result<std::shared_ptr<Devices>> open_only(
        std::string_view transport, const Config& config, const transport::Secret& secret,
        const transport::SocketAddress& reached_at = {});
    ~Devices();
    Devices(const Devices&) = delete;
    Devices& operator=(const Devices&) = delete;

    /// Errors: kInvalidArgument naming WEIR_BIND; those of the transports
    [[nodiscard]] Result<std::unique_ptr<transport::Endpoint>> make_endpoint();
    /// The names of the open transports, for example "shm, verbs, tcp".
    [[nodiscard]] std::string names() const;

    /// How many transports are open.
    [[nodiscard]] uint32_t count() const noexcept { return count_; }

    /// Whether processes of this host are reached over shared memory.
    [[nodiscard]] bool has_shm() const noexcept { return has_shm_; }

    /// Makes the shards' pools, one on each NUMA node of `nodes`, for parameters and for what
    /// shards fetch. No peer reaches them. Call it once, before shards are made.
    /// Errors: kNoMemory with what to do; kInvalidArgument naming WEIR_POOL_MIB or
    ///         WEIR_HUGE_PAGES
    [[nodiscard]] Status make_store_pools(const Config& config, std::span<const int> nodes);

    /// The pool of nodes[pool] as a new Memory with its own counters: one for every shard.
    [[nodiscard]] Memory& store_memory(size_t pool);
    /// For rows that copies on this host take from here: peers may read it. All shards of the process
    /// share it. Its pool is made when some of it is asked for.
    [[nodiscard]] Memory& lent_memory() noexcept;
    /// How many bytes of parameters this process has room for, as far as can be known now.
    [[nodiscard]] static uint64_t store_room_bytes();
    /// How many bytes all caches in the pool of nodes[pool] may take together.
    [[nodiscard]] size_t store_cache_bytes(size_t pool) const;

    /// The pool for what workers push from and pull into; servers read and write it. All clients
    /// of the process share it. Each call returns a new Memory with its own counters.
    [[nodiscard]] static Result<std::shared_ptr<Memory>> worker_pool(
        const std::shared_ptr<Devices>& devices);
    /// How many bytes all caches in the worker pool may take together. Call worker_pool() before.
    [[nodiscard]] size_t worker_cache_bytes() const;
    [[nodiscard]] static std::shared_ptr<MemoryRegistrar> registrar(
        std::shared_ptr<Devices> devices);

private:
    Devices() = default;

    struct Wanted {
        bool shm = false;
        bool verbs = false;  ///< with tcp: if this machine has it
        bool tcp = false;
    };

    [[nodiscard]] static Result<std::shared_ptr<Devices>> open_wanted(
        const Wanted& wanted, const Config& config, const transport::Secret& secret,
        const transport::SocketAddress& reached_at);

    std::string names_;
    uint32_t count_ = 0;
    bool has_shm_ = false;
    std::string bind_address_;  ///< WEIR_BIND
    std::string first_port_;    ///< "WEIR_PORT=7100"
    std::unique_ptr<transport::Device> device_;
    transport::EndpointOptions endpoint_options_;
    transport::PoolOptions worker_pool_options_;
    mutable std::mutex mutex_;  ///< guards worker_pool_ and worker_pool_is_reported_
    std::vector<std::unique_ptr<transport::MemoryPool>> store_pools_;
    std::unique_ptr<Memory> lent_memory_;
    std::unique_ptr<transport::MemoryPool> worker_pool_;
    bool worker_pool_is_reported_ = false;  ///< the use() of some Memory reports the pool's size
    std::vector<std::vector<std::unique_ptr<Memory>>> store_memories_;  ///< of each store pool
};

}  // namespace weir

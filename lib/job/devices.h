// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Devices: the transports of this process as one, and the memory pools registered with them.

#include <memory>
#include <string>
#include <vector>

#include "lib/base/config.h"
#include "lib/base/result.h"
#include "lib/store/memory.h"
#include "lib/worker/client_state.h"
#include "transport/pool/memory_pool.h"
#include "transport/secret.h"
#include "transport/transport.h"

namespace weir {

/// Thread: any.
class Devices {
public:
    /// Opens what WEIR_TRANSPORT allows and this machine has.
    /// Errors: kUnavailable: a transport that was asked for by name cannot be used, and why
    [[nodiscard]] static Result<std::shared_ptr<Devices>> open(const Config& config,
                                                               const transport::Secret& secret,
                                                               bool other_hosts);
    ~Devices();
    Devices(const Devices&) = delete;
    Devices& operator=(const Devices&) = delete;

    [[nodiscard]] Result<std::unique_ptr<transport::Endpoint>> make_endpoint();
    /// "shm, verbs".
    [[nodiscard]] std::string names() const;

    /// For parameters, and for what shards fetch: no peer ever reaches it.
    [[nodiscard]] Memory& store_memory() noexcept { return *store_memory_; }

    /// For what workers push from and pull into: servers read and write it. One for all clients.
    [[nodiscard]] static Result<std::shared_ptr<Memory>> worker_pool(
        const std::shared_ptr<Devices>& devices);
    [[nodiscard]] static std::shared_ptr<MemoryRegistrar> registrar(
        std::shared_ptr<Devices> devices);

private:
    Devices() = default;

    std::string names_;
    std::unique_ptr<transport::Device> device_;
    transport::EndpointOptions endpoint_options_;
    transport::PoolOptions worker_pool_options_;
    std::mutex mutex_;  ///< guards the worker pool's making
    std::unique_ptr<transport::MemoryPool> store_pool_;
    std::unique_ptr<transport::MemoryPool> worker_pool_;
    std::unique_ptr<Memory> store_memory_;
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SimCluster: manager, servers and workers in one thread, on simulated time over a simulated
/// network.

#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "lib/node/manager.h"
#include "lib/server/shard.h"
#include "lib/worker/client_core.h"
#include "tests/registered_memory.h"
#include "tests/table_schemas.h"
#include "transport/fault/fault.h"
#include "transport/sim/network.h"

namespace weir::test {

using testing::dense_table;
using testing::RegisteredMemory;
using testing::sparse_table;
using testing::table_of;

struct SimShape {
    uint32_t servers = 2;
    uint32_t shards = 2;
    uint32_t workers = 3;
    uint32_t message_bytes_max = 8192;
    size_t fetch_bytes_max = size_t{1} << 20;
    size_t waiting_bytes_max = size_t{64} << 20;
    size_t eager_bytes = 4096;
    size_t server_memory_bytes = ~size_t{0};
    size_t worker_memory_bytes = ~size_t{0};
    std::shared_ptr<transport::Faults> faults = nullptr;  ///< of the first worker's network
    bool faults_of_all = false;                           ///< of all hosts' networks
};

class SimCluster {
public:
    SimCluster(uint64_t seed, const SimShape& shape, const transport::sim::Options& options)
        : network(seed, clock, options), shape_(shape) {
        transport::Device& first = add_host(shape.faults_of_all);
        ManagerOptions manager_options;
        manager_options.server_count = shape.servers;
        manager_options.shards_per_server = shape.shards;
        manager_options.worker_count = shape.workers;
        manager = std::make_unique<Manager>(manager_options, endpoint(first), clock);
        for (uint32_t server = 0; server < shape.servers; ++server) {
            transport::Device& device = server == 0 ? first : add_host(shape.faults_of_all);
            Memory& memory =
                add_memory(device, transport::Access::kLocal, shape.server_memory_bytes);
            for (uint32_t shard = 0; shard < shape.shards; ++shard) {
                ShardOptions shard_options;
                shard_options.number = server * shape.shards + shard;
                shard_options.manager_address = manager->address();
                shard_options.fetch_bytes_max = shape.fetch_bytes_max;
                shard_options.waiting_bytes_max = shape.waiting_bytes_max;
                shards.push_back(
                    std::make_unique<Shard>(shard_options, endpoint(device), clock, memory, rules));
            }
        }
        for (uint32_t worker = 0; worker < shape.workers; ++worker)
            add_worker(worker);
    }

    /// The host of a server is its number, that of a worker comes after all servers.
    [[nodiscard]] uint32_t host_of_worker(uint32_t worker) const { return shape_.servers + worker; }

    /// Polls everything; if nothing was done, lets the network take one step. False if there was none
    /// either: then a millisecond passes.
    bool step() {
        size_t done = manager != nullptr ? manager->poll() : 0;
        for (auto& shard : shards)
            done += shard->finished() ? 0 : shard->poll();
        for (auto& worker : workers) {
            if (worker != nullptr) done += worker->poll();
        }
        if (done > 0) return true;
        if (network.step()) return true;
        clock.advance(kMillisecond);  // only deadlines are left
        return false;
    }

    template <class Over>
    [[nodiscard]] bool run_until(Over&& over, size_t idle_max = 100'000) {
        for (size_t idle = 0; idle < idle_max;) {
            if (over()) return true;
            if (!step()) ++idle;
        }
        return over();
    }

    /// Runs until `count` milliseconds have passed in which there was nothing to do.
    void run_idle(size_t count) {
        (void)run_until([] { return false; }, count);
    }

    [[nodiscard]] bool start() {
        return run_until([&] {
            for (auto& worker : workers) {
                if (!worker->ready()) return false;
            }
            return true;
        });
    }

    [[nodiscard]] Status finish(uint32_t worker, ClientCore::CallId call) {
        if (!run_until([&] { return workers[worker]->done(call); })) {
            return Error(Errc::kDeadline, "the call never ended");
        }
        return workers[worker]->take(call);
    }

    [[nodiscard]] Result<TableInfo> make_table(uint32_t worker, const TableSchema& schema) {
        const ClientCore::CallId call = workers[worker]->create_table(schema);
        if (!run_until([&] { return workers[worker]->done(call); })) {
            return Error(Errc::kDeadline, "the call never ended");
        }
        return workers[worker]->take_table(call);
    }

    [[nodiscard]] transport::Device& device_of_worker(uint32_t worker) {
        return *devices_[host_of_worker(worker)];
    }

    /// Registered memory of a worker.
    [[nodiscard]] Memory& memory_of(uint32_t worker) { return *worker_memories_[worker]; }

    /// Of all shards of a server.
    [[nodiscard]] RegisteredMemory& memory_of_server(uint32_t server) { return *memories_[server]; }

    ManualClock clock;
    transport::sim::Network network;
    RuleRegistry rules = RuleRegistry::with_builtin_rules();

private:
    transport::Device& add_host(bool has_faults) {
        auto device = network.make_device(static_cast<uint32_t>(devices_.size()));
        if (has_faults && shape_.faults != nullptr) {
            device = transport::inject_faults(std::move(device), shape_.faults);
        }
        devices_.push_back(std::move(device));
        return *devices_.back();
    }

    Memory& add_memory(transport::Device& device, transport::Access access, size_t limit_bytes) {
        memories_.push_back(std::make_unique<RegisteredMemory>(device, access, limit_bytes));
        return *memories_.back();
    }

    [[nodiscard]] std::unique_ptr<transport::Endpoint> endpoint(transport::Device& device) {
        transport::EndpointOptions options;
        options.message_bytes_max = shape_.message_bytes_max;
        return std::move(device.make_endpoint(options)).value();
    }

    void add_worker(uint32_t number) {
        transport::Device& device = add_host(shape_.faults_of_all || number == 0);
        worker_memories_.push_back(
            &add_memory(device, transport::Access::kRemote, shape_.worker_memory_bytes));
        ClientCoreOptions options;
        options.worker = number;
        options.rank = number;
        options.manager_address = manager->address();
        options.eager_bytes = shape_.eager_bytes;
        workers.push_back(std::make_unique<ClientCore>(options, endpoint(device), clock,
                                                       *worker_memories_.back(), rules));
    }

    SimShape shape_;
    std::vector<std::unique_ptr<transport::Device>> devices_;
    std::vector<std::unique_ptr<RegisteredMemory>> memories_;
    std::vector<Memory*> worker_memories_;

public:
    std::unique_ptr<Manager> manager;
    std::vector<std::unique_ptr<Shard>> shards;
    std::vector<std::unique_ptr<ClientCore>> workers;
};

/// One server of one shard.
[[nodiscard]] inline SimShape one_shard(uint32_t workers = 1) {
    return {.servers = 1, .shards = 1, .workers = workers};
}

/// A cluster that all workers have joined, with a table that the first one has made.
class StartedCluster : public SimCluster {
public:
    StartedCluster(uint64_t seed, const SimShape& shape, const TableSchema& schema,
                   const transport::sim::Options& options = {})
        : SimCluster(seed, shape, options) {
        REQUIRE(start());
        auto made = make_table(0, schema);
        REQUIRE(made.has_value());
        table = *std::move(made);
    }

    /// The first worker.
    [[nodiscard]] ClientCore& client() { return *workers[0]; }

    TableInfo table;
};

}  // namespace weir::test

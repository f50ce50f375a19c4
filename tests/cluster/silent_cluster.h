// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SilentCluster: a cluster of which servers are stopped, or cut off from each other or the manager.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cluster/sim_cluster.h"
#include "tests/doubtful_endpoint.h"

namespace weir::test {

/// A cluster with a table of counters, of which each segment has its copies.
class SilentCluster : public SimCluster {
public:
    static constexpr uint64_t kCounters = 1000;
    static constexpr uint64_t kLeaseNs = kSecond;  ///< as ManagerOptions has it

    /// `waits`: the first worker hears of the end of no connection.
    explicit SilentCluster(uint32_t replicas, uint32_t servers = 3, bool waits = false)
        : SilentCluster(shape_of(replicas, servers), waits) {}

    explicit SilentCluster(const SimShape& shape, bool waits = false)
        : SimCluster(1, shape, {.maps_memory = true}) {
        if (waits) {
            ClientCoreOptions options;
            options.manager_address = manager->address();
            workers[0].reset();
            workers[0] = std::make_unique<ClientCore>(
                options,
                std::make_unique<testing::DoubtfulEndpoint>(
                    std::move(device_of_worker(0).make_endpoint({})).value(), true),
                clock, memory_of(0), rules);
        }
        REQUIRE(start());
        auto made = make_table(0, dense_table("counters", kCounters, ValueType::kUInt64));
        REQUIRE(made.has_value());
        table = *std::move(made);
        REQUIRE(run_until([&] { return has_all_copies(); }));
    }

    [[nodiscard]] bool has_all_copies() const {
        return std::ranges::all_of(manager->view().segments(), [&](const ViewSegment& segment) {
            return segment.backup_count() >= shape().replicas;
        });
    }

    [[nodiscard]] bool has_server(uint32_t server) const {
        const View view = manager->view();
        return view.server(server) != nullptr;
    }

    /// As SIGSTOP does to its process. Server and host have the same number.
    void stop_server(uint32_t server) {
        stopped_hosts.insert(server);
        for (uint32_t shard = 0; shard < shape().shards; ++shard)
            stopped.insert(shards[server * shape().shards + shard].get());
    }

    void continue_server(uint32_t server) {
        stopped_hosts.erase(server);
        for (uint32_t shard = 0; shard < shape().shards; ++shard)
            stopped.erase(shards[server * shape().shards + shard].get());
    }

    void pass(uint64_t ns) {
        const uint64_t end_ns = clock.now_ns() + ns;
        REQUIRE(run_until([&] { return clock.now_ns() >= end_ns; }));
    }

    /// Adds 1 to all counters.
    [[nodiscard]] ClientCore::CallId push(uint32_t worker = 0, uint64_t deadline_ns = 0) {
        return workers[worker]->push(table, KeyRange{0, kCounters}, std::as_bytes(std::span(ones_)),
                                     {.deadline_ns = deadline_ns});
    }

    [[nodiscard]] Status push_and_wait(uint32_t worker = 0) { return finish(worker, push(worker)); }

    /// The sum of all counters.
    [[nodiscard]] uint64_t sum(uint32_t worker = 0) {
        std::vector<uint64_t> values(kCounters);
        const auto pull = workers[worker]->pull(table, KeyRange{0, kCounters},
                                                std::as_writable_bytes(std::span(values)), {});
        REQUIRE(finish(worker, pull).has_value());
        uint64_t all = 0;
        for (const uint64_t value : values)
            all += value;
        return all;
    }

    TableInfo table;

    static SimShape shape_of(uint32_t replicas, uint32_t servers) {
        SimShape shape;
        shape.servers = servers;
        shape.shards = 2;
        shape.workers = 2;
        shape.replicas = replicas;
        shape.is_manager_apart = true;
        return shape;
    }

private:
    std::vector<uint64_t> ones_ = std::vector<uint64_t>(kCounters, 1);
};

}  // namespace weir::test

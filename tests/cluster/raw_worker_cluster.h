// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RawWorkerCluster: one shard and two workers, one of which is a RawWorker; and calls on a table of sums.

#include <cstdint>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cluster/raw_worker.h"
#include "tests/cluster/sim_cluster.h"

namespace weir::test {

inline constexpr uint64_t kKeysOfSums = 16;

inline TableSchema sums_schema(uint64_t keys = kKeysOfSums) {
    return dense_table("sums", keys, ValueType::kFloat64);
}

inline CallOptions in_iteration(uint64_t number) {
    CallOptions options;
    options.iteration = number;
    return options;
}

/// A push or pull of keys [0, count) of the first table, as a client would make it.
inline wire::FrameHeader range_request(wire::Kind kind, uint64_t number, uint32_t count) {
    wire::FrameHeader header;
    header.kind = kind;
    header.flags = wire::kKeysRange | wire::kValuesInline;
    header.value_type = static_cast<uint8_t>(ValueType::kFloat64);
    header.request = number;
    header.epoch = 1;
    header.count = count;
    return header;
}

inline ClientCore::CallId push_sums(SimCluster& cluster, uint32_t worker, const TableInfo& table,
                                    std::span<const double> values,
                                    const CallOptions& options = {}) {
    return cluster.workers[worker]->push(table, KeyRange{0, values.size()}, std::as_bytes(values),
                                         options);
}

inline std::vector<double> pull_sums(SimCluster& cluster, const TableInfo& table) {
    std::vector<double> values(table.schema.key_count, -1);
    const auto pull =
        cluster.workers[0]->pull(table, KeyRange{0, values.size()},
                                 std::as_writable_bytes(std::span(values)), CallOptions());
    REQUIRE(cluster.finish(0, pull).has_value());
    return values;
}

/// A cluster of one shard and two workers, the second of which is played by the test.
struct RawWorkerCluster {
    explicit RawWorkerCluster(const SimShape& shape = one_shard(2),
                              const transport::sim::Options& options = {})
        : cluster(1, shape, options), raw(cluster, 50) {
        cluster.workers[1].reset();
        raw.join(1);
        REQUIRE(raw.run_until([&] { return cluster.workers[0]->ready(); }));
    }

    [[nodiscard]] TableInfo make_table(uint64_t keys = kKeysOfSums) {
        auto table = cluster.make_table(0, sums_schema(keys));
        REQUIRE(table.has_value());
        return *table;
    }

    SimCluster cluster;
    RawWorker raw;
};

}  // namespace weir::test

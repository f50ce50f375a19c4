// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tables with random initial rows, which shards make over many polls.

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "lib/store/initial_rows.h"
#include "lib/store/table.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/table_schemas.h"

namespace weir::test {

TEST_SUITE("random rows") {
    TEST_CASE("a table is made over many polls, each of which makes a bounded number of its rows") {
        constexpr uint64_t kKeys = 500'000;
        constexpr uint32_t kWidth = 8;
        constexpr size_t kShards = 2;
        SimShape shape;
        shape.servers = 1;
        shape.workers = 2;
        SimCluster cluster(1, shape, {});
        REQUIRE(cluster.start());
        TableSchema random = testing::dense_table("random", kKeys, ValueType::kFloat32, kWidth);
        random.initial_value = uniform(-1, 1, 7);
        const auto call = cluster.workers[0]->create_table(random);
        size_t polls = 0;  // of each shard
        REQUIRE(cluster.run_until([&] {
            ++polls;
            return cluster.workers[0]->done(call);
        }));
        CHECK(polls > kKeys * kWidth / kShards / TableShard::kFilledValuesMax);

        const auto table = cluster.make_table(1, random);
        REQUIRE(table.has_value());
        std::vector<float> found(kKeys * kWidth);
        REQUIRE(
            cluster
                .finish(1, cluster.workers[1]->pull(*table, KeyRange{0, kKeys},
                                                    std::as_writable_bytes(std::span(found)), {}))
                .has_value());
        const InitialRows rows(random.initial_value, ValueType::kFloat32, kWidth);
        std::vector<float> wanted(kKeys * kWidth);
        for (uint64_t key = 0; key < kKeys; ++key)
            rows.fill(key, reinterpret_cast<std::byte*>(&wanted[key * kWidth]));
        CHECK(std::ranges::equal(found, wanted));
    }
}

}  // namespace weir::test

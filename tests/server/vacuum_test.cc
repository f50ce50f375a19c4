// SPDX-License-Identifier: Apache-2.0
/// \file
/// The vacuum of servers with backups, while rows end without a pause.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cluster/sim_cluster.h"

namespace weir::test {

TEST_SUITE("vacuum") {
    TEST_CASE(
        "with backups the room of rows is used again, though an erasure is always under way") {
        constexpr uint64_t kKeys = 64;  // of a push
        constexpr size_t kOpen = 16;    // calls: the half of them erases
        constexpr uint64_t kPushes = 500;
        SimShape shape{.servers = 2, .shards = 1, .workers = 1};
        shape.replicas = 1;
        SimCluster cluster(1, shape, {});
        REQUIRE(cluster.start());
        TableSchema schema = sparse_table("t", ValueType::kFloat32, 4);
        schema.erasable = true;
        const auto table = cluster.make_table(0, schema);
        REQUIRE(table.has_value());
        ClientCore& worker = *cluster.workers[0];

        struct Open {
            ClientCore::CallId call = 0;
            std::vector<uint64_t> keys;
        };

        const std::vector<float> ones(kKeys * schema.width, 1);
        std::deque<Open> open;
        const auto begin = [&](uint64_t first, bool erases) {
            Open& one = open.emplace_back();
            for (uint64_t key = first; key < first + kKeys; ++key)
                one.keys.push_back(key);
            Operation operation;
            operation.table = &*table;
            operation.keys = one.keys;
            operation.erases = erases;
            if (!erases) {
                operation.row_bytes = table->pushed_row_bytes;
                operation.values = std::as_bytes(std::span(ones));
            }
            one.call = worker.start({std::move(operation)});
        };
        size_t rows_max = 0;
        const auto look = [&] {
            for (const auto& shard : cluster.shards) {
                if (shard != nullptr && !shard->tables().empty())
                    rows_max = std::max(rows_max, shard->tables()[0]->rows->row_count());
            }
        };
        for (uint64_t turn = 0; turn < kPushes; ++turn) {
            begin(turn * kKeys, false);
            begin(turn * kKeys, true);
            while (open.size() >= kOpen) {
                if (worker.done(open.front().call)) {
                    REQUIRE(worker.take(open.front().call));
                    open.pop_front();
                }
                (void)cluster.step();
                look();
            }
        }
        while (!open.empty()) {
            REQUIRE(cluster.finish(0, open.front().call));
            open.pop_front();
        }
        MESSAGE("at most ", rows_max, " rows, of which ", kOpen / 2 * kKeys, " may be alive");
        CHECK(rows_max <= 4 * kOpen / 2 * kKeys);
    }
}

}  // namespace weir::test

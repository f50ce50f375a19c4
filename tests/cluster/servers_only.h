// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ServersOnly: a simulated job whose servers come and go, and in which nobody works.

#include <cstdint>

#include <doctest/doctest.h>

#include "lib/store/schema_codec.h"
#include "tests/cluster/raw_worker.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/frames.h"

namespace weir::test {

/// A job whose only worker is the test.
class ServersOnly {
public:
    explicit ServersOnly(uint64_t seed, const SimShape& shape = {.workers = 1})
        : cluster(seed, shape, {}), worker(cluster, 99) {
        cluster.workers[0].reset();
        manager = worker.join(0);
        REQUIRE(cluster.run_until([&] { return cluster.manager->view().epoch() == 1; }));
    }

    /// The status of the reply to a table's creation.
    [[nodiscard]] Errc create_table(const char* name) {
        const uint64_t request = ++requests;
        const TableSchema schema = dense_table(name, 8);
        worker.send(manager, testing::frame_header(wire::Kind::kCreateTable, request),
                    TableMessage{0, name, encode_schema(schema)}.encode());
        REQUIRE(worker.run_until([&] { return worker.answer(request) != nullptr; }));
        return worker.answer(request)->header.status;
    }

    SimCluster cluster;
    RawWorker worker;
    transport::ConnectionId manager = 0;
    uint64_t requests = 0;
};

}  // namespace weir::test

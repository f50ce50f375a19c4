// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ShardTable: one table at one shard: its rows, and the requests that wait at it.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lib/server/deferred_requests.h"
#include "lib/server/iterations.h"
#include "lib/server/pins.h"
#include "lib/store/table.h"
#include "transport/transport.h"

namespace weir {

struct ShardTable {
    ShardTable(std::unique_ptr<TableShard> table, uint32_t workers)
        : rows(std::move(table)), iterations(workers), one_worker(workers == 1) {}

    /// A request that is answered when the open iteration is closed.
    struct Acknowledgement {
        transport::ConnectionId connection = 0;
        uint64_t request = 0;
    };

    std::unique_ptr<TableShard> rows;
    Iterations iterations;
    std::vector<Acknowledgement> to_acknowledge;  ///< arrived parts of the open iteration
    DeferredRequests deferred;                    ///< wait until an iteration is closed
    Pins pins;
    bool one_worker = false;
    bool aggregated = false;  ///< the table has a sum of the open iteration
};

}  // namespace weir

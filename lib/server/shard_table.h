// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ShardTable: one table at one shard: its rows, and the requests that wait at it.

#include <cstdint>
#include <memory>
#include <utility>

#include "lib/server/deferred_requests.h"
#include "lib/server/open_iterations.h"
#include "lib/server/pins.h"
#include "lib/server/request.h"
#include "lib/store/table.h"

namespace weir {

struct ShardTable {
    ShardTable(std::unique_ptr<TableShard> table, uint32_t workers)
        : rows(std::move(table)), iterations(*rows, workers) {}

    std::unique_ptr<TableShard> rows;
    OpenIterations iterations;
    DeferredRequests deferred;  ///< wait until an iteration is closed
    Pins pins;
};

/// The rows of the key list that a push or pull names. Errors: as TableShard's look-ups of rows
[[nodiscard]] Result<RowList> rows_of(ShardTable& table, const ShardRequest& request);

}  // namespace weir

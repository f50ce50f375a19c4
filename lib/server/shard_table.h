// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ShardTable: one table at one shard: its rows, and the requests that wait at it.

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>

#include "lib/key/key_list.h"
#include "lib/key/position.h"
#include "lib/server/deferred_requests.h"
#include "lib/server/open_iterations.h"
#include "lib/server/pins.h"
#include "lib/server/request.h"
#include "lib/store/table.h"
#include "lib/vclock/clock_table.h"
#include "lib/vclock/segment_list.h"

namespace weir {

/// A list that may be pushed by its hash, and the segments in which it has keys.
struct TouchedList {
    ListId id;
    TouchedSegments touched;
};

struct ShardTable {
    ShardTable(std::unique_ptr<TableShard> table, uint32_t workers)
        : rows(std::move(table)), iterations(*rows, workers) {
        const TableSchema& schema = rows->schema();
        if (schema.layout == Layout::kDense) positions = PositionMap::dense(schema.key_count);
    }

    /// The segments in which a list has keys; nullptr if they are not known.
    [[nodiscard]] const TouchedList* find_touched(const ListId& id) const {
        const auto found = touched.find(id.hash);
        return found != touched.end() && found->second.id == id ? &found->second : nullptr;
    }

    std::unique_ptr<TableShard> rows;
    OpenIterations iterations;
    DeferredRequests deferred;  ///< wait until an iteration is closed
    Pins pins;
    ClockTable clocks;
    PositionMap positions = PositionMap::sparse();
    std::unordered_map<uint64_t, TouchedList> touched;  ///< by the hash of lists that were pushed
};

/// The rows of the key list that a push or pull names. Errors: as TableShard's look-ups of rows
[[nodiscard]] Result<RowList> rows_of(ShardTable& table, const ShardRequest& request);

/// Runs the table's rule with the push's values. Errors: as TableShard::push()
[[nodiscard]] Errc change(ShardTable& table, const ShardRequest& request);

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ShardTable: one table at one shard: its rows, and the requests that wait at it.

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "lib/key/position.h"
#include "lib/server/iterations/open_iterations.h"
#include "lib/server/requests/pins.h"
#include "lib/server/requests/request.h"
#include "lib/store/table.h"
#include "lib/vclock/clock_table.h"

namespace weir {

struct ShardTable {
    explicit ShardTable(std::unique_ptr<TableShard> table)
        : rows(std::move(table)), iterations(*rows) {
        const TableSchema& schema = rows->schema();
        if (schema.layout == Layout::kDense) positions = PositionMap::dense(schema.key_count);
    }

    std::unique_ptr<TableShard> rows;
    OpenIterations iterations;
    RequestQueue deferred;  ///< wait until an iteration is closed
    Pins pins;
    ClockTable clocks;
    bool was_pushed = false;       ///< rows, times or iterations may not be as in the beginning
    bool is_dropped = false;       ///< it is here only for a checkpoint that is under way
    uint64_t closed_at_start = 0;  ///< iterations: it was read from a checkpoint
    uint64_t watched = 0;          ///< as Shard::watch_iterations() counts iterations
    PositionMap positions = PositionMap::sparse();
};

/// Finds what a push or pull names. Nobody reads its keys again. Errors: as TableShard's look-ups of rows
[[nodiscard]] Result<Entries> resolve(ShardTable& table, const Request& request);

/// The position of the first key of a push or pull, unless it has no keys or they are not here.
[[nodiscard]] std::optional<uint64_t> first_position(const ShardTable& table,
                                                     const Request& request);

/// How a closed iteration failed at a position, or without one anywhere at this shard.
[[nodiscard]] std::optional<IterationFailure> failure_at(const ShardTable& table,
                                                         uint64_t iteration,
                                                         std::optional<uint64_t> position);

/// How the positions of a part, which has keys, have come on with its iteration, which is open
/// where this shard is furthest behind.
enum class OfPositions {
    kOpen,
    kClosed,
    kBoth,    ///< no worker that follows the rules cuts a part so
    kUnknown  ///< its keys are not here
};
[[nodiscard]] OfPositions judge_positions(const ShardTable& table, const Request& part);

}  // namespace weir

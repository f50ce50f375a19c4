// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// TableReplica: what a shard has of one table, and its replicas have alike.

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "lib/key/key_range.h"
#include "lib/key/position.h"
#include "lib/replication/closed_iterations.h"
#include "lib/store/table.h"
#include "lib/vclock/clock_table.h"

namespace weir {

struct TableReplica {
    explicit TableReplica(std::unique_ptr<TableShard> table) : rows(std::move(table)) {
        const TableSchema& schema = rows->schema();
        if (schema.layout == Layout::kDense) positions = PositionMap::dense(schema.key_count);
    }

    TableReplica(const TableReplica&) = delete;
    TableReplica& operator=(const TableReplica&) = delete;
    virtual ~TableReplica() = default;

    /// Whether the network is reading rows of these keys, which must stay where they are.
    [[nodiscard]] virtual bool is_read(KeyRange keys) const noexcept = 0;

    std::unique_ptr<TableShard> rows;
    PositionMap positions = PositionMap::sparse();
    ClockTable clocks;
    ClosedIterations closed;
    bool was_pushed = false;  ///< rows, times or iterations may not be as in the beginning
    bool is_dropped = false;  ///< it is here only for a checkpoint that is under way
};

/// All tables of a shard, by number; null: none.
struct Replicas : std::vector<std::unique_ptr<TableReplica>> {
    std::set<uint32_t> dropped;  ///< numbers; streams may still bring something for these tables
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ShardCheckpoints: what the manager orders for checkpoints, and what is done for it in each poll.
/// Tables that are read from one.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lib/server/checkpoint/table_fill.h"
#include "lib/server/tables/table_orders.h"

namespace weir {

class ShardCheckpoints : ShardRoom {
public:
    ShardCheckpoints(const ShardRoom& room, CheckpointPart& part, WaitingRequests& waiting,
                     IterationParts& parts, TableOrders& tables)
        : ShardRoom(room), part_(part), waiting_(waiting), parts_(parts), orders_(tables) {}

    void order(std::span<const std::byte> body);

    /// Whether step() is to be called in each poll.
    [[nodiscard]] bool is_active() const noexcept {
        return part_.is_under_way() || !fills_.empty();
    }

    size_t step();

    /// Whether step() would find something to do although nothing has come.
    [[nodiscard]] bool has_work() const noexcept {
        return part_.has_work() || std::ranges::any_of(fills_, [](const Fill& fill) {
                   return fill.rows != nullptr && fill.rows->has_rows();
               });
    }

    /// A view has come: the next checkpoint writes all.
    void forget_saved() { part_.forget_saved(); }

    /// What this shard holds has changed, or its manager is gone.
    void fail(const Error& why);

private:
    /// Reads a table, sends its rows to the backups, and reports that: one reads at a time, in order.
    struct Fill {
        enum class Stage : uint8_t { kWaiting, kReading, kCopying, kReported };

        CheckpointOrder order;  ///< of this table alone
        Stage stage = Stage::kWaiting;
        std::unique_ptr<TableFill> rows = nullptr;  ///< kReading

        [[nodiscard]] uint32_t table() const noexcept { return order.tables[0].table; }
    };

    void settle();
    void report(const CheckpointReport& report);
    void begin_fill(const CheckpointOrder& order);
    size_t go_on_filling(Fill& fill);
    void report_filled(uint32_t table, const Status& outcome);

    CheckpointPart& part_;
    WaitingRequests& waiting_;
    IterationParts& parts_;
    TableOrders& orders_;
    uint64_t kept_change_ = 0;  ///< the last one when the last rows were kept for a checkpoint
    std::vector<Fill> fills_;   ///< tables that are read from a checkpoint
};

}  // namespace weir

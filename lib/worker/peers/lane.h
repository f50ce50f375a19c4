// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Lane: what is to be sent to one peer, and in which order.

#include <cstdint>
#include <deque>
#include <vector>

#include "lib/worker/peers/piece_order.h"

namespace weir {

/// Thread: the client's; the Sender fills and empties it
struct Lane {
    /// Requests that could not be sent yet, or are to be sent again. Of each table, the pushes
    /// are in the order of their places.
    std::deque<uint64_t> waiting;
    uint64_t not_before_ns = 0;  ///< a busy shard gets nothing until then; 0: there is no pause

    /// Of the pushes of a table that went over this connection.
    [[nodiscard]] PieceOrder& order(uint32_t table) {
        if (table >= orders_.size()) orders_.resize(table + 1);
        return orders_[table];
    }

    /// The next connection counts anew.
    void forget_orders() noexcept { orders_.clear(); }

    /// The shard's segments have changed, and nothing is under way.
    void begin_orders_anew() noexcept {
        for (PieceOrder& order : orders_)
            order.begin_anew();
    }

private:
    std::vector<PieceOrder> orders_;  ///< by table
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ScanWalk: what a scan has read of a table and what it asks for next, while segments move.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/result.h"
#include "lib/key/key_range.h"
#include "lib/key/position_set.h"
#include "lib/ring/view.h"
#include "lib/wire/scan_message.h"

namespace weir {

struct TableInfo;

/// Some rows, as a scan gives them to the caller.
struct ScanPiece {
    std::vector<uint64_t> keys;     ///< ascending
    std::vector<std::byte> values;  ///< row by row
    bool keys_only = false;         ///< there are no values: pull them
};

/// The scan walks through the rows of one shard after the other. A walk is over some of the
/// positions that the shard is primary of, and no position is in two walks, unless it moves before
/// its walk has ended: then it is unread again, and another walk asks its new primary.
///
/// A dense table is walked in the order of the positions, so what was read is not asked for again.
/// Shards list a sparse table in an order of their own, each another one. So the walk remembers
/// its keys: those of positions that move are left out when they come again.
class ScanWalk {
public:
    struct Question {
        uint32_t shard = kNoShard;
        ScanMessage message;
    };

    /// `keys`: only these. `table` must outlive this.
    ScanWalk(const TableInfo& table, std::optional<KeyRange> keys);

    /// What to ask for next. Nothing if all was read. Without a take() in between, that is what was
    /// asked for before, of whoever has it in this view.
    /// Errors: kPeerLost if no server has a part of it
    [[nodiscard]] Result<std::optional<Question>> next(const View& view);

    /// The answer to what next() gave. There may be no rows in it although more follow.
    /// Errors: kProtocol if it is malformed, or gives rows that were not asked for
    [[nodiscard]] Result<ScanPiece> take(std::span<const std::byte> body);

private:
    void narrow(const View& view);
    [[nodiscard]] Status begin(const View& view);
    void end();
    [[nodiscard]] bool take_range(const ScanReply& reply, ScanPiece& piece);
    [[nodiscard]] bool take_keys(const ScanReply& reply, ScanPiece& piece);

    const TableInfo& table_;
    uint64_t first_key_;
    uint64_t last_key_;
    PositionSet unread_;           // in no walk yet
    uint64_t epoch_ = 0;           // of the view in which the shard had all of the walk
    uint32_t shard_ = kNoShard;    // of the walk
    PositionSet walk_;             // what is to be read there; empty: there is no walk
    bool begins_ = true;           // sparse: the walk
    uint64_t cursor_ = 0;          // sparse: where the walk is
    std::vector<uint64_t> given_;  // sparse: keys that this walk gave
    /// Sparse: keys that walks gave before they lost them. They are unread or in the walk. Ascending.
    std::vector<uint64_t> moved_;
    uint64_t empty_pieces_ = 0;  // in a row
};

}  // namespace weir

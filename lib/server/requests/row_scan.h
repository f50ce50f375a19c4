// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RowScan: replies to a worker that reads out a table, a bounded number of rows at a time.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lib/store/table.h"
#include "lib/wire/scan_message.h"

namespace weir {

/// Nothing is kept from one request to the next: the worker gets a cursor and sends it back. Any
/// cursor is safe, whoever made it up. It is encrypted, because the order in which a table lists
/// its rows would tell a peer about the secret by which the table spreads its keys.
///
/// Thread: the shard's
class RowScan {
public:
    /// `secret_seed`: none: drawn at random.
    explicit RowScan(std::optional<uint64_t> secret_seed = {});

    /// The body of the reply, at most `bytes_max` (at least 1 KiB): of positions that are `served`
    /// here. Valid until the next call.
    /// Takes a bounded time; the reply may have no rows although more follow.
    [[nodiscard]] std::span<const std::byte> run(const TableShard& table, const ScanMessage& asked,
                                                 const PositionSet& served, size_t bytes_max);

private:
    /// How many rows fit into a reply.
    struct Room {
        size_t row_count = 0;
        bool keys_only = false;
    };

    [[nodiscard]] static Room room_for(const TableShard& table, size_t bytes_max);
    [[nodiscard]] uint64_t encrypted(uint64_t next) const noexcept;
    [[nodiscard]] uint64_t decrypted(uint64_t cursor) const noexcept;
    void list_range(const TableShard& table, const ScanMessage& asked, const PositionSet& positions,
                    size_t row_count_max, KeyCursor& cursor);
    void list_keys(const TableShard& table, const ScanMessage& asked, const PositionSet& positions,
                   size_t row_count_max, KeyCursor& cursor);

    std::array<uint64_t, 2> secret_;
    ListedRows listed_;
    std::vector<std::pair<uint64_t, uint32_t>> sorted_;  // key, row
    std::vector<std::byte> reply_;
};

}  // namespace weir

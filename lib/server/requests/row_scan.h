// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RowScan: finds rows for a worker that reads out a sparse table, a bounded number at a time.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

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

    /// What one row of the table takes, of the columns that are asked for.
    [[nodiscard]] static ScanColumns columns_of(const TableShard& table,
                                                const ScanMessage& asked) noexcept;

    /// Finds the next rows, at most `row_count_max`: of positions that are `served` here.
    /// Takes a bounded time; there may be no rows although more follow.
    /// Errors: kNoMemory: memory has become too short to go on from this cursor
    [[nodiscard]] Result<ScanReply> list(TableShard& table, const ScanMessage& asked,
                                         const PositionSet& served, size_t row_count_max);

    /// Adds what a function finds in the next rows, of a dense table, too: as many as it may look at in a poll.
    /// Errors: as list(), and TableShard::read()
    [[nodiscard]] Result<ScanReply> read(TableShard& table, const ScanMessage& asked,
                                         const PositionSet& served, const FunctionCall& call,
                                         FunctionResult& result);

    /// Writes the rows that list() has just found to `out`.
    /// Shape:   out.size() == columns.bytes(row_count)
    void copy(const TableShard& table, const ScanColumns& columns, std::span<std::byte> out) const;

private:
    [[nodiscard]] uint64_t encrypted(uint64_t next) const noexcept;
    [[nodiscard]] uint64_t decrypted(uint64_t cursor) const noexcept;
    [[nodiscard]] Status list_some(TableShard& table, const ScanMessage& asked,
                                   const PositionSet& positions, size_t row_count_max,
                                   KeyCursor& cursor, bool& is_by_row);
    [[nodiscard]] ScanReply reply(const KeyCursor& cursor, bool is_by_row) const;
    void leave_out_others(const TableShard& table, const ScanMessage& asked);

    std::array<uint64_t, 2> secret_;
    ListedRows listed_;
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The bodies of a kScan and of the reply to it: some rows of a sparse table, or what a function has found in some of
/// a table, from where the last reply ended. They are encoded field by field, in the order of declaration. The rows,
/// or the result, are written to the worker's memory.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/key/position.h"
#include "lib/wire/call_message.h"
#include "lib/wire/frame.h"

namespace weir {

/// A worker asks a shard for rows.
struct ScanMessage {
    static constexpr size_t kRangesMax = 32;
    /// Where the encoded handle of the memory lies: a worker knows it only when it sends the message.
    static constexpr size_t kMemoryBytes = sizeof(wire::MemoryHandle);

    enum Columns : uint8_t {
        kValues = 1,
        kState = 2,   ///< of the table's rule
        kStamps = 4,  ///< of an erasable table
    };

    wire::MemoryHandle memory{};  ///< of the worker, 8-byte aligned, where the rows go
    uint64_t epoch = 0;  ///< of a view of the sender, in which the shard has all `positions`
    uint32_t table = 0;
    uint32_t width = 0;         ///< values per key of the sender's table
    uint8_t value_type = 0;     ///< weir::ValueType of the sender's table
    uint8_t columns = kValues;  ///< beside the keys
    bool begins = true;         ///< from the first row on; else from `cursor` on
    bool by_row = false;        ///< how the cursor counts, as the last reply said
    uint64_t cursor = 0;        ///< as the last reply gave it
    uint64_t first_key = 0;     ///< only rows of the keys first_key..last_key
    uint64_t last_key = ~uint64_t{0};
    /// A function that reads, whose result comes in place of rows; the table may be dense. Encoded as the number of its
    /// bytes (8 bytes), then these; nothing, if its function is 0.
    CallMessage call{};
    /// Only rows at these positions: 1 to kRangesMax ranges, ascending and disjoint.
    std::vector<PositionRange> positions{PositionRange{}};

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<ScanMessage> decode(std::span<const std::byte> body);
};

/// Where the columns of a piece lie in the memory, each 8-byte aligned: the keys, then those that
/// were asked for, row by row.
struct ScanColumns {
    size_t value_bytes = 0;  ///< of a row; 0: not asked for
    size_t state_bytes = 0;
    size_t stamp_bytes = 0;

    [[nodiscard]] static constexpr size_t aligned(size_t bytes) noexcept {
        return (bytes + 7) / 8 * 8;
    }

    [[nodiscard]] constexpr size_t values_at(size_t row_count) const noexcept {
        return row_count * sizeof(uint64_t);
    }

    [[nodiscard]] constexpr size_t state_at(size_t row_count) const noexcept {
        return values_at(row_count) + aligned(row_count * value_bytes);
    }

    [[nodiscard]] constexpr size_t stamps_at(size_t row_count) const noexcept {
        return state_at(row_count) + aligned(row_count * state_bytes);
    }

    /// What so many rows take.
    [[nodiscard]] constexpr size_t bytes(size_t row_count) const noexcept {
        return stamps_at(row_count) + aligned(row_count * stamp_bytes);
    }

    /// How many rows have room in `bytes_max`.
    [[nodiscard]] constexpr size_t rows_in(size_t bytes_max) const noexcept {
        constexpr size_t kPadding = 3 * sizeof(uint64_t);
        if (bytes_max < bytes(1)) return 0;
        const size_t row_bytes = sizeof(uint64_t) + value_bytes + state_bytes + stamp_bytes;
        return bytes_max < kPadding + row_bytes ? 1 : (bytes_max - kPadding) / row_bytes;
    }
};

/// The reply's body.
struct ScanReply {
    static constexpr size_t kBytes = 24;

    enum Flags : uint32_t {
        kAtEnd = 1,  ///< there are no more rows
        kByRow = 2,  ///< the shard lists them as they lie in its memory
    };

    uint64_t cursor = 0;     ///< of the next request
    uint32_t row_count = 0;  ///< of a function: the bytes of its result
    uint32_t flags = 0;
    uint64_t shown = 0;  ///< of a function: the last iteration that was closed, 0 if none

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<ScanReply> decode(std::span<const std::byte> body);
};

}  // namespace weir

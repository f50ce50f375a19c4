// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RangeReader: reads the rows of any positions of one table out of a checkpoint, whoever wrote
/// them. So any number of shards can go on from it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/checkpoint/chunk.h"
#include "lib/checkpoint/disk.h"
#include "lib/checkpoint/manifest.h"
#include "lib/key/position_set.h"

namespace weir::checkpoint {

/// Reads one chunk at a time, as a whole.
///
/// Thread: one
class RangeReader {
public:
    /// A part of a chunk. Spans are valid until the next call.
    struct Part {
        KeyRange range;                  ///< of a dense table: its rows, or
        std::span<const uint64_t> keys;  ///< of a sparse one, in any order
        std::span<const std::byte> values;
        std::span<const std::byte> state;
        /// With the first part of a chunk, which may have no rows: as in the chunk, also of
        /// positions beside those that were asked for.
        std::span<const ClosedUpTo> closed;
        std::span<const ClockTimes> clocks;
    };

    /// `disk` and `manifest` must outlive it. `rows`: of the table, as its rule has them now.
    RangeReader(Disk& disk, std::string folder, const Manifest& manifest, const TableSchema& table,
                const RowLayout& rows, PositionSet positions);

    /// Reads the next part. False: there is none. Rows come once each.
    /// Errors: those of Disk and decode_chunk(); kParse, naming the file, if it is not the chunk
    ///         that the manifest names
    [[nodiscard]] Result<bool> next(Part& part);

    /// The file that next() has begun to read last; empty: none.
    [[nodiscard]] std::string_view chunk_name() const noexcept {
        return entry_ == 0 ? std::string_view() : entries_[entry_ - 1].name;
    }

private:
    [[nodiscard]] Status load(const ChunkEntry& entry);
    void take(const ChunkRows& rows, KeyRange keys, Part& part);
    void take_listed(const ChunkRows& rows, Part& part);

    Disk& disk_;
    std::string folder_;
    TableSchema table_;
    RowLayout rows_;
    PositionSet positions_;
    std::vector<KeyRange> wanted_;  ///< of a dense table
    std::span<const ChunkEntry> entries_;
    size_t entry_ = 0;  ///< the next one
    std::vector<std::byte> bytes_;
    Chunk chunk_;
    size_t row_block_ = 0;     ///< of the chunk, the next one
    size_t wanted_range_ = 0;  ///< the next one for that block
    bool is_new_ = false;      ///< no part of the chunk was given yet
    std::vector<uint64_t> keys_;
    std::vector<std::byte> values_;
    std::vector<std::byte> state_;
};

/// What the chunks of a table must say about themselves, but for the range.
[[nodiscard]] ChunkPlace place_in(const TableSchema& table, const RowLayout& rows);

/// Reads the file of a chunk into `bytes`, which it then points into.
/// Errors: as RangeReader::next(), if it is not what the manifest says of it
[[nodiscard]] Result<Chunk> read_chunk(Disk& disk, const std::string& folder,
                                       const ChunkEntry& entry, const TableSchema& table,
                                       std::vector<std::byte>& bytes);

}  // namespace weir::checkpoint

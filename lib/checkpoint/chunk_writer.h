// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ChunkWriter: collects a chunk in memory and writes its file.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "lib/base/machine/pages.h"
#include "lib/base/result.h"
#include "lib/checkpoint/chunk.h"
#include "lib/checkpoint/disk.h"
#include "lib/checkpoint/manifest.h"

namespace weir::checkpoint {

/// A shard adds rows as they are, and gives the writer to a thread that may wait for the disk.
///
/// Thread: one at a time
class ChunkWriter {
public:
    /// `name`: of the file. `expected_bytes`: of it, about. `buffer`: memory to work in, of a writer
    /// before; what is in it does not matter.
    ChunkWriter(const ChunkPlace& place, std::string name, size_t expected_bytes = 0,
                PageBytes buffer = {});

    /// Where the values and the state of new rows are to be put, before the next call.
    struct Room {
        std::span<std::byte> values;
        std::span<std::byte> state;
    };

    /// Keys of a dense table. They must follow those before; at the end all of the range are there.
    [[nodiscard]] Room add(KeyRange keys);
    /// Keys of a sparse table, within the range; each at most once.
    [[nodiscard]] Room add(std::span<const uint64_t> keys);
    /// Times of workers in a part of the range.
    void add_clocks(const ClockTimes& times);
    void add_iteration(const ClosedUpTo& closed);

    [[nodiscard]] size_t bytes() const noexcept { return used_; }

    struct Written {
        ChunkEntry entry;
        std::unique_ptr<NewFile> file;  ///< to sync; then the folder is to be synced, too
    };

    /// After all that was added: writes the file.
    /// Errors: those of Disk; a file that could not be written whole is removed
    [[nodiscard]] Result<Written> write(Disk& disk, const std::string& folder);

    /// The last call: its memory.
    [[nodiscard]] PageBytes take_buffer() noexcept { return std::move(buffer_); }

private:
    [[nodiscard]] std::byte* append(size_t size);
    void add_to_checksum();
    void begin_block(Chunk::Block kind, uint64_t count, uint64_t first_key);
    [[nodiscard]] Room add_rows(uint64_t count);

    ChunkPlace place_;
    std::string name_;
    RunningChecksum checksum_;  ///< of the bytes before the last ones, which are being filled
    uint64_t row_count_ = 0;
    PageBytes buffer_;  ///< not made smaller: so much of its memory was used before
    size_t used_ = 0;
    size_t summed_ = 0;     ///< bytes that are in the checksum
    size_t populated_ = 0;  ///< bytes of its memory, from the beginning
};

}  // namespace weir::checkpoint

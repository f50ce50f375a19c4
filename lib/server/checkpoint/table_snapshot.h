// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// TableSnapshot: writes one table of a shard, as it is at one instant, in chunks to the disk, while
/// the table goes on.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/machine/pages.h"
#include "lib/base/result.h"
#include "lib/checkpoint/chunk_writer.h"
#include "lib/checkpoint/disk_queue.h"
#include "lib/key/position_set.h"
#include "lib/replication/spare_buffers.h"
#include "lib/server/shard_table.h"
#include "lib/vclock/segment_list.h"

namespace weir {

/// A chunk of a checkpoint, and what it has beside rows: as long as clocks and iterations are the same
/// in its range, and no view has come, so are the rows.
struct SavedChunk {
    checkpoint::ChunkEntry entry;
    uint64_t stamp = 0;  ///< a hash of its clocks and iterations
};

/// The positions are cut into parts of about a chunk. Rows of a sparse table lie in no order, so its
/// parts are filled several at a time, by a walk over all rows for each group of parts. While more than
/// kWaitingBytesMax wait for the disk, no other chunk is begun.
///
/// Thread: the shard's; the disk queue's writes what is complete
class TableSnapshot {
public:
    static constexpr size_t kGroupBytes = size_t{128} << 20;  ///< of parts that are filled together
    static constexpr size_t kWaitingBytesMax = checkpoint::Chunk::kBytesWanted;
    /// Memory of one chunk: an eighth more than it is to need.
    static constexpr size_t kSpareBytes = checkpoint::Chunk::kBytesWanted / 8 * 9;
    /// What of it stays with a shard for its next checkpoint: of a chunk that is written, of one that
    /// waits, and of one that is filled.
    static constexpr size_t kSpareBytesMax = 3 * kSpareBytes;
    /// So many files are synced together: the disk has their content on its way meanwhile, and the
    /// folder is synced once.
    static constexpr size_t kSyncedTogether = 32;

    /// Memory of chunks, which all snapshots of a shard share.
    struct Memory {
        SpareBuffers<PageBytes> spares{kSpareBytesMax};
        size_t waiting_bytes = 0;  ///< for the disk
        /// By table: rows that were kept, whose memory the thread for the disk is to give back.
        std::map<uint32_t, std::weak_ptr<KeptRows>> dropped{};
    };

    /// Where the chunks go.
    struct Place {
        std::shared_ptr<checkpoint::DiskQueue> disk;
        Memory* memory = nullptr;  ///< must outlive it
        std::string folder;
        uint64_t number = 0;  ///< of the checkpoint
        uint32_t shard = 0;
    };

    /// The rows of these positions, all of which the shard holds in `held`, as they are now. `table`
    /// must outlive it. `before`: the chunks of an earlier checkpoint, ascending, if the shard holds
    /// the same as then; those that have not changed are not written again.
    /// Errors: Errc::kNoMemory
    [[nodiscard]] static Result<std::unique_ptr<TableSnapshot>> begin(
        ShardTable& table, const PositionSet& positions, const SegmentList& held,
        std::span<const SavedChunk> before, Place place);

    ~TableSnapshot();

    TableSnapshot(const TableSnapshot&) = delete;
    TableSnapshot& operator=(const TableSnapshot&) = delete;

    /// Copies about `bytes_max` of rows, if the disk has room. Returns how much it did, in bytes.
    /// Errors: Errc::kCancelled if rows are not as they were; those of the disk
    [[nodiscard]] Result<size_t> step(size_t bytes_max);

    /// A chunk that is on the disk, if there is another one.
    [[nodiscard]] std::optional<SavedChunk> take_chunk();

    /// Whether step() has nothing to do but to wait for the disk.
    [[nodiscard]] bool waits_for_disk() const noexcept {
        return is_read_ || place_.memory->waiting_bytes > kWaitingBytesMax;
    }

    [[nodiscard]] const ShardTable& table() const noexcept { return table_; }

    /// Whether all chunks are on the disk, and were taken.
    [[nodiscard]] bool is_over() const noexcept {
        return is_read_ && writing_.empty() && syncing_.empty() && written_.empty();
    }

private:
    struct Part {
        PositionRange range;
        size_t bytes = 0;  ///< about
        std::vector<ClockTimes> clocks = {};
        std::vector<checkpoint::ClosedUpTo> closed = {};
        uint64_t stamp = 0;
        std::unique_ptr<checkpoint::ChunkWriter> writer = nullptr;
    };

    struct WrittenPart {
        checkpoint::ChunkEntry entry;
        PageBytes buffer;
    };

    /// Files that are to be synced together. The disk queue's thread has them.
    using Files = std::vector<std::unique_ptr<checkpoint::NewFile>>;

    struct Writing {
        size_t bytes = 0;
        uint64_t stamp = 0;
        std::shared_ptr<checkpoint::ChunkWriter> writer;
        std::future<Result<WrittenPart>> part;
    };

    struct Syncing {
        size_t chunk_count = 0;  ///< those in unsynced_ that came first
        std::future<Status> synced;
    };

    TableSnapshot(ShardTable& table, Place place) : table_(table), place_(std::move(place)) {}

    void plan(const PositionSet& positions, const SegmentList& held,
              std::span<const SavedChunk> before);
    void cut(const PositionSet& positions, double bytes);
    void look_at(Part& part, const SegmentList& held) const;
    void open_group();
    void close_group();
    void sync();
    void drop_files();
    void drop_kept();
    void add_range();
    void add_listed();
    [[nodiscard]] Status take_written();

    ShardTable& table_;
    Place place_;
    std::vector<Part> parts_;  ///< ascending
    size_t group_begin_ = 0;   ///< the parts that are being filled, if there are any
    size_t group_end_ = 0;
    PositionSet group_;  ///< their positions
    KeyCursor cursor_;
    bool is_read_ = false;  ///< all rows were copied
    std::deque<Writing> writing_;
    std::shared_ptr<Files> files_ = std::make_shared<Files>();
    size_t file_count_ = 0;  ///< that are, or will be, in files_
    std::deque<Syncing> syncing_;
    std::deque<SavedChunk> unsynced_;
    std::deque<SavedChunk> written_;
    ListedRows listed_;                                       // kept for their memory
    std::vector<std::pair<uint32_t, uint32_t>> part_of_row_;  // part, index in listed_
    ListedRows of_part_;
};

}  // namespace weir

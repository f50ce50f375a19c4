// SPDX-License-Identifier: Apache-2.0
#include "lib/server/checkpoint/table_snapshot.h"

#include <algorithm>
#include <iterator>

#include "lib/base/byte_codec.h"
#include "lib/checkpoint/folder.h"
#include "lib/checkpoint/range_reader.h"

namespace weir {

using checkpoint::Chunk;
using checkpoint::ChunkWriter;

namespace {

constexpr size_t kStepRowsMax = 4096;

/// Whether a chunk of about so many bytes takes memory that all large chunks have by turns, so that
/// none of them is filled into pages that the kernel has to find first.
bool has_spare_size(size_t bytes) noexcept {
    return bytes >= Chunk::kBytesWanted / 16 && bytes <= Chunk::kBytesWanted;
}

/// How many positions; that of the whole ring is one too low.
uint64_t width_of(PositionRange range) noexcept {
    const uint64_t count = range.last - range.first + 1;
    return count == 0 ? ~uint64_t{0} : count;
}

}  // namespace

Result<std::unique_ptr<TableSnapshot>> TableSnapshot::begin(ShardTable& table,
                                                            const PositionSet& positions,
                                                            const SegmentList& held,
                                                            std::span<const SavedChunk> before,
                                                            Place place) {
    std::unique_ptr<TableSnapshot> snapshot(new TableSnapshot(table, std::move(place)));
    snapshot->plan(positions, held, before);
    snapshot->is_read_ = snapshot->parts_.empty();
    if (!snapshot->is_read_) WEIR_TRY(table.rows->keep_snapshot());
    return snapshot;
}

TableSnapshot::~TableSnapshot() {
    for (const Writing& writing : writing_)
        place_.memory->waiting_bytes -= writing.bytes;
    if (file_count_ > 0 || !syncing_.empty()) drop_files();
    drop_kept();
}

/// Chunks that were cut before are cut so again, until the table is twice as large.
void TableSnapshot::plan(const PositionSet& positions, const SegmentList& held,
                         std::span<const SavedChunk> before) {
    const TableShard& rows = *table_.rows;
    const bool is_sparse = rows.schema().layout == Layout::kSparse;
    const double row_bytes =
        static_cast<double>(rows.row_layout().value_bytes() + rows.row_layout().state_bytes +
                            (is_sparse ? sizeof(uint64_t) : 0));
    double ring = 0;  // all positions that have rows here, also those of backups
    for (const PositionRange range : rows.held().ranges())
        ring += static_cast<double>(width_of(range));
    double ours = 0;
    for (const PositionRange run : positions.ranges())
        ours += static_cast<double>(width_of(run));
    const double bytes =
        row_bytes * static_cast<double>(rows.written_count()) * ours / std::max(ring, 1.0);
    double bytes_before = 0;
    for (const SavedChunk& chunk : before)
        bytes_before += static_cast<double>(chunk.entry.size_bytes);
    if (before.empty() || bytes > 2 * bytes_before) {
        cut(positions, bytes);
        for (Part& part : parts_)
            look_at(part, held);
        return;
    }
    for (const SavedChunk& chunk : before) {
        Part part{.range = chunk.entry.range, .bytes = static_cast<size_t>(chunk.entry.size_bytes)};
        look_at(part, held);
        if (part.stamp == chunk.stamp) {
            written_.push_back(chunk);
        } else {
            parts_.push_back(std::move(part));
        }
    }
}

/// Into parts of about a chunk. `bytes`: of them all, about.
void TableSnapshot::cut(const PositionSet& positions, double bytes) {
    double ours = 0;
    for (const PositionRange run : positions.ranges())
        ours += static_cast<double>(width_of(run));
    for (const PositionRange run : positions.ranges()) {
        const double run_bytes = bytes * static_cast<double>(width_of(run)) / ours;
        const auto count = static_cast<uint64_t>(run_bytes / Chunk::kBytesWanted) + 1;
        const uint64_t step = width_of(run) / count;
        for (uint64_t i = 0; i < count; ++i) {
            Part& part = parts_.emplace_back();
            part.range = {run.first + i * step,
                          i + 1 == count ? run.last : run.first + (i + 1) * step - 1};
            part.bytes = static_cast<size_t>(run_bytes / static_cast<double>(count));
        }
    }
}

/// What a part has beside rows. Every push that is executed raises a clock in all segments of its
/// keys, every iteration that changes rows is closed then, and clocks are dropped by views alone.
void TableSnapshot::look_at(Part& part, const SegmentList& held) const {
    part.clocks.push_back(table_.clocks.part(held, part.range));
    for (const ClosedRun& closed : table_.iterations.state().closed().runs(part.range)) {
        if (closed.state.last != 0) part.closed.push_back({closed.range, closed.state.last});
    }
    ByteWriter all;
    for (const ClockTimes& times : part.clocks)
        times.encode(all);
    for (const checkpoint::ClosedUpTo& closed : part.closed)
        all.number(closed.range.first).number(closed.range.last).number(closed.iteration);
    part.stamp = checkpoint::checksum_of("", all.bytes());
}

/// The next parts that are filled together; not before, because they take memory.
void TableSnapshot::open_group() {
    const TableShard& rows = *table_.rows;
    const bool is_sparse = rows.schema().layout == Layout::kSparse;
    size_t bytes = 0;
    std::vector<PositionRange> ranges;
    while (group_end_ < parts_.size() && (ranges.empty() || (is_sparse && bytes < kGroupBytes))) {
        Part& part = parts_[group_end_++];
        bytes += part.bytes;
        ranges.push_back(part.range);
        checkpoint::ChunkPlace place = checkpoint::place_in(rows.schema(), rows.row_layout());
        place.range = part.range;
        std::string name =
            checkpoint::chunk_name(place_.number, rows.schema().id, part.range.first, place_.shard);
        part.writer = has_spare_size(part.bytes)
                          ? std::make_unique<ChunkWriter>(place, std::move(name), kSpareBytes,
                                                          place_.memory->spares.take())
                          : std::make_unique<ChunkWriter>(place, std::move(name),
                                                          part.bytes + part.bytes / 8);
        for (const ClockTimes& times : part.clocks)
            part.writer->add_clocks(times);
        for (const checkpoint::ClosedUpTo& closed : part.closed)
            part.writer->add_iteration(closed);
    }
    group_ = PositionSet(ranges);
}

void TableSnapshot::close_group() {
    for (size_t i = group_begin_; i < group_end_; ++i) {
        const std::shared_ptr<ChunkWriter> writer = std::move(parts_[i].writer);
        const size_t bytes = writer->bytes();
        place_.memory->waiting_bytes += bytes;
        // If it is given up before its turn comes, it leaves memory at once and is not written.
        auto part =
            place_.disk->add([ours = std::weak_ptr(writer), files = files_, folder = place_.folder](
                                 checkpoint::Disk& disk) -> Result<WrittenPart> {
                const std::shared_ptr<ChunkWriter> chunk = ours.lock();
                if (chunk == nullptr) return Error(Errc::kCancelled, "it was given up");
                WEIR_ASSIGN(ChunkWriter::Written written, chunk->write(disk, folder));
                files->push_back(std::move(written.file));
                return WrittenPart{std::move(written.entry), chunk->take_buffer()};
            });
        writing_.push_back({bytes, parts_[i].stamp, writer, std::move(part)});
        if (++file_count_ == kSyncedTogether) sync();
    }
    group_begin_ = group_end_;
    cursor_ = {};
    is_read_ = group_end_ == parts_.size();
}

/// Has the disk sync what it has written before.
void TableSnapshot::sync() {
    if (file_count_ == 0) return;
    const size_t count = std::exchange(file_count_, 0);
    syncing_.push_back({count, place_.disk->add([files = files_, folder = place_.folder](
                                                    checkpoint::Disk& disk) -> Status {
                            for (const auto& file : std::exchange(*files, {}))
                                WEIR_TRY(file->sync());
                            return disk.sync_folder(folder);
                        })});
}

/// To close a file takes the disk, too, if it is on a network file system.
void TableSnapshot::drop_files() {
    writing_.clear();  // the futures have files_
    syncing_.clear();
    (void)place_.disk->add([files = std::move(files_)](checkpoint::Disk&) { return true; });
}

/// To give so much memory back takes milliseconds: the thread for the disk has them. But if it still has those of
/// the checkpoint before, the disk may hang, and many may be given up until that is known: then it is done here.
void TableSnapshot::drop_kept() {
    std::shared_ptr<KeptRows> kept = table_.rows->take_snapshot();
    if (kept == nullptr) return;
    auto& dropped = place_.memory->dropped;
    std::erase_if(dropped, [](const auto& one) { return one.second.expired(); });
    if (!dropped.try_emplace(table_.rows->schema().id, kept).second) return;
    (void)place_.disk->add([kept = std::move(kept)](checkpoint::Disk&) { return true; });
}

Result<size_t> TableSnapshot::step(size_t bytes_max) {
    WEIR_TRY(take_written());
    if (waits_for_disk() || bytes_max == 0) return size_t{0};
    if (group_begin_ == group_end_) open_group();
    TableShard& rows = *table_.rows;
    const bool is_sparse = rows.schema().layout == Layout::kSparse;
    constexpr size_t kListBytes = size_t{2} << 10;  // a step may have read many buckets
    const size_t row_bytes = rows.row_layout().value_bytes() + rows.row_layout().state_bytes +
                             (is_sparse ? kFoundKeyBytes : 0);
    size_t done = 0;
    while (done < bytes_max && !cursor_.at_end) {
        const size_t row_count = std::clamp<size_t>(bytes_max / row_bytes, 1, kStepRowsMax);
        rows.list_snapshot(cursor_, group_, row_count, listed_);
        const bool is_list = listed_.range.empty();
        is_list ? add_listed() : add_range();
        done += listed_.row_count() * row_bytes + (is_list ? kListBytes : 0);
    }
    if (rows.is_snapshot_spoilt())
        return Error(Errc::kCancelled, "rows were dropped, or there was no memory to keep them");
    if (cursor_.at_end) close_group();
    if (is_read_) {
        sync();
        drop_kept();
    }
    return done;
}

/// Of a dense table: one part is filled at a time.
void TableSnapshot::add_range() {
    const ChunkWriter::Room room = parts_[group_begin_].writer->add(listed_.range);
    table_.rows->read_snapshot(listed_, room.values, room.state);
}

/// To each part its rows.
void TableSnapshot::add_listed() {
    part_of_row_.clear();
    const auto begin = parts_.begin() + static_cast<ptrdiff_t>(group_begin_);
    const auto end = parts_.begin() + static_cast<ptrdiff_t>(group_end_);
    for (uint32_t i = 0; i < listed_.keys.size(); ++i) {
        const uint64_t position = PositionMap::sparse().position(listed_.keys[i]);
        const auto part = std::partition_point(
            begin, end, [&](const Part& p) { return p.range.last < position; });
        part_of_row_.emplace_back(static_cast<uint32_t>(part - parts_.begin()), i);
    }
    std::ranges::sort(part_of_row_);
    for (size_t i = 0; i < part_of_row_.size();) {
        const uint32_t part = part_of_row_[i].first;
        of_part_.keys.clear();
        of_part_.rows.clear();
        for (; i < part_of_row_.size() && part_of_row_[i].first == part; ++i) {
            of_part_.keys.push_back(listed_.keys[part_of_row_[i].second]);
            of_part_.rows.push_back(listed_.rows[part_of_row_[i].second]);
        }
        const ChunkWriter::Room room = parts_[part].writer->add(of_part_.keys);
        table_.rows->read_snapshot(of_part_, room.values, room.state);
    }
}

Status TableSnapshot::take_written() {
    while (!writing_.empty() && checkpoint::is_done(writing_.front().part)) {
        place_.memory->waiting_bytes -= writing_.front().bytes;
        Result<WrittenPart> part = writing_.front().part.get();
        const uint64_t stamp = writing_.front().stamp;
        writing_.pop_front();
        if (!part) return std::move(part).error();
        unsynced_.push_back({std::move(part->entry), stamp});
        if (part->buffer.capacity() >= kSpareBytes)
            place_.memory->spares.give(std::move(part->buffer));
    }
    // A chunk is written before it is synced, so it is in unsynced_.
    while (!syncing_.empty() && checkpoint::is_done(syncing_.front().synced)) {
        const auto end = unsynced_.begin() + static_cast<ptrdiff_t>(syncing_.front().chunk_count);
        WEIR_TRY(syncing_.front().synced.get());
        std::move(unsynced_.begin(), end, std::back_inserter(written_));
        unsynced_.erase(unsynced_.begin(), end);
        syncing_.pop_front();
    }
    return {};
}

std::optional<SavedChunk> TableSnapshot::take_chunk() {
    if (written_.empty()) return std::nullopt;
    SavedChunk chunk = std::move(written_.front());
    written_.pop_front();
    return chunk;
}

}  // namespace weir

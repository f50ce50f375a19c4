// SPDX-License-Identifier: Apache-2.0
#include "lib/checkpoint/chunk_writer.h"

#include <cstring>
#include <utility>

#include "lib/base/byte_codec.h"
#include "lib/checkpoint/folder.h"

namespace weir::checkpoint {

ChunkWriter::ChunkWriter(const ChunkPlace& place, std::string name, size_t expected_bytes,
                         PageBytes buffer)
    : place_(place),
      name_(std::move(name)),
      checksum_(name_),
      buffer_(std::move(buffer)),
      populated_(buffer_.size()) {
    buffer_.reserve(expected_bytes);
    ByteWriter head;
    head.raw(std::as_bytes(std::span("WEIRCHNK", 8))).number(Chunk::kVersion);
    const RowLayout& rows = place.rows;
    head.number(place.table).number(place.layout).number(rows.value_type).number(rows.pushed_type);
    head.number(uint8_t{0}).number(rows.width).number(rows.state_bytes).number(rows.pushed_values);
    head.number(place.key_count).number(place.range.first).number(place.range.last);
    WEIR_CHECK(head.bytes().size() == Chunk::kHeadBytes);
    std::memcpy(append(Chunk::kHeadBytes), head.bytes().data(), Chunk::kHeadBytes);
}

/// What was added is in the processor's caches still. The thread for the disk would have to read a
/// whole chunk from memory, and take a processor for as long.
void ChunkWriter::add_to_checksum() {
    checksum_.add(std::span(buffer_).subspan(summed_, used_ - summed_));
    summed_ = used_;
}

std::byte* ChunkWriter::append(size_t size) {
    add_to_checksum();
    const size_t before = used_;
    used_ += size;
    populated_ = populate_up_to({buffer_.data(), buffer_.capacity()}, used_, populated_);
    if (used_ > buffer_.size()) buffer_.resize(used_);
    return buffer_.data() + before;
}

void ChunkWriter::begin_block(Chunk::Block kind, uint64_t count, uint64_t first_key) {
    ByteWriter head;
    head.number(kind).number(uint32_t{0}).number(count).number(first_key);
    std::memcpy(append(Chunk::kBlockHeadBytes), head.bytes().data(), Chunk::kBlockHeadBytes);
}

ChunkWriter::Room ChunkWriter::add_rows(uint64_t count) {
    const size_t value_bytes = count * place_.rows.value_bytes();
    const size_t state_bytes = count * place_.rows.state_bytes;
    std::byte* const room = append(value_bytes + state_bytes);
    row_count_ += count;
    return {{room, value_bytes}, {room + value_bytes, state_bytes}};
}

ChunkWriter::Room ChunkWriter::add(KeyRange keys) {
    WEIR_CHECK(place_.layout == Layout::kDense && !keys.empty());
    begin_block(Chunk::Block::kRange, keys.key_count(), keys.begin);
    return add_rows(keys.key_count());
}

ChunkWriter::Room ChunkWriter::add(std::span<const uint64_t> keys) {
    WEIR_CHECK(place_.layout == Layout::kSparse && !keys.empty());
    begin_block(Chunk::Block::kList, keys.size(), 0);
    std::memcpy(append(keys.size_bytes()), keys.data(), keys.size_bytes());
    return add_rows(keys.size());
}

void ChunkWriter::add_clocks(const ClockTimes& times) {
    ByteWriter encoded;
    times.encode(encoded);
    begin_block(Chunk::Block::kClocks, encoded.bytes().size(), 0);
    std::memcpy(append(encoded.bytes().size()), encoded.bytes().data(), encoded.bytes().size());
}

void ChunkWriter::add_iteration(const ClosedUpTo& closed) {
    // Who reads the chunk refuses one of other positions.
    WEIR_CHECK(place_.range.first <= closed.range.first && closed.range.last <= place_.range.last);
    begin_block(Chunk::Block::kClosed, 1, 0);
    const uint64_t item[] = {closed.range.first, closed.range.last, closed.iteration};
    std::memcpy(append(sizeof(item)), item, sizeof(item));
}

Result<ChunkWriter::Written> ChunkWriter::write(Disk& disk, const std::string& folder) {
    begin_block(Chunk::Block::kEnd, row_count_, 0);
    add_to_checksum();
    const uint64_t checksum = checksum_.value();
    std::memcpy(append(sizeof(checksum)), &checksum, sizeof(checksum));
    WEIR_ASSIGN(std::unique_ptr<NewFile> file,
                write_new_file(disk, folder, name_, std::span(buffer_).first(used_)));
    return Written{{.table = place_.table,
                    .range = place_.range,
                    .row_count = row_count_,
                    .size_bytes = used_,
                    .checksum = checksum,
                    .name = name_},
                   std::move(file)};
}

}  // namespace weir::checkpoint

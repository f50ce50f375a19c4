// SPDX-License-Identifier: Apache-2.0
#include "lib/checkpoint/range_reader.h"

#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "lib/checkpoint/folder.h"

namespace weir::checkpoint {

ChunkPlace place_in(const TableSchema& table, const RowLayout& rows) {
    return {.table = table.id,
            .layout = table.layout,
            .rows = rows,
            .key_count = table.layout == Layout::kDense ? table.key_count : 0,
            .range = {}};
}

Result<Chunk> read_chunk(Disk& disk, const std::string& folder, const ChunkEntry& entry,
                         const TableSchema& table, std::vector<std::byte>& bytes) {
    const std::string path = path_of(folder, entry.name);
    Result<std::vector<std::byte>> read = disk.read(path, Chunk::kBytesMax);
    if (!read) return std::move(read).error();
    bytes = *std::move(read);
    const auto wrong = [&](std::string_view why) {
        return Error(Errc::kParse, fmt::format("{}: {}; use another checkpoint", path, why));
    };
    if (bytes.size() != entry.size_bytes) {
        return wrong(
            fmt::format("the chunk has {} bytes instead of {}", bytes.size(), entry.size_bytes));
    }
    Result<Chunk> chunk = decode_chunk(entry.name, bytes);
    if (!chunk) {
        // Its text begins with the name.
        return Error(chunk.error().code(), path_of(folder, chunk.error().text()));
    }
    ChunkPlace place = place_in(table, chunk->place.rows);
    place.rows.value_type = table.value_type;
    place.rows.width = table.width;
    place.range = entry.range;
    if (chunk->place != place || chunk->checksum != entry.checksum ||
        chunk->row_count != entry.row_count)
        return wrong("the chunk is not the one that the manifest names");
    return chunk;
}

RangeReader::RangeReader(Disk& disk, std::string folder, const Manifest& manifest,
                         const TableSchema& table, const RowLayout& rows, PositionSet positions)
    : disk_(disk),
      folder_(std::move(folder)),
      table_(table),
      rows_(rows),
      positions_(std::move(positions)),
      entries_(manifest.chunks_of(table.id)) {
    if (table.layout == Layout::kDense) wanted_ = positions_.dense_keys(table.key_count);
}

Status RangeReader::load(const ChunkEntry& entry) {
    WEIR_ASSIGN(chunk_, read_chunk(disk_, folder_, entry, table_, bytes_));
    RowLayout has = chunk_.place.rows;
    has.stamp_bytes = rows_.stamp_bytes;  // the schema says whether there are some
    const bool says_pushed = has.pushed_values != 0;
    if (!has.holds_the_same(rows_) || (says_pushed && has != rows_)) {
        return Error(Errc::kTypeMismatch,
                     fmt::format("{}: its rows have {} bytes of state and take {} of a push, and "
                                 "those of rule '{}' have {} and take {}; register the rule that "
                                 "the checkpoint was made with",
                                 path_of(folder_, entry.name), has.state_bytes,
                                 says_pushed ? has.pushed_bytes() : rows_.pushed_bytes(),
                                 table_.rule, rows_.state_bytes, rows_.pushed_bytes()));
    }
    row_block_ = 0;
    wanted_range_ = 0;
    is_new_ = true;
    return {};
}

void RangeReader::take(const ChunkRows& rows, KeyRange keys, Part& part) {
    WEIR_CHECK(rows.range.begin <= keys.begin && keys.end <= rows.range.end);
    const size_t skipped = keys.begin - rows.range.begin;
    const size_t value_bytes = chunk_.place.rows.value_bytes();
    const size_t state_bytes = chunk_.place.rows.state_bytes;
    part.range = keys;
    part.values = rows.values.subspan(skipped * value_bytes, keys.key_count() * value_bytes);
    part.state = rows.state.subspan(skipped * state_bytes, keys.key_count() * state_bytes);
}

void RangeReader::take_listed(const ChunkRows& rows, Part& part) {
    const size_t value_bytes = chunk_.place.rows.value_bytes();
    const size_t state_bytes = chunk_.place.rows.state_bytes;
    keys_.clear();
    values_.resize(rows.values.size());
    state_.resize(rows.state.size());
    for (size_t i = 0; i < rows.row_count(); ++i) {
        uint64_t key = 0;
        std::memcpy(&key, rows.keys.data() + i * sizeof(key), sizeof(key));
        if (!positions_.contains(PositionMap::sparse().position(key))) continue;
        const size_t to = keys_.size();
        std::memcpy(values_.data() + to * value_bytes, rows.values.data() + i * value_bytes,
                    value_bytes);
        if (state_bytes != 0) {
            std::memcpy(state_.data() + to * state_bytes, rows.state.data() + i * state_bytes,
                        state_bytes);
        }
        keys_.push_back(key);
    }
    part.keys = keys_;
    part.values = std::span(values_).first(keys_.size() * value_bytes);
    part.state = std::span(state_).first(keys_.size() * state_bytes);
}

Result<bool> RangeReader::next(Part& part) {
    part = {};
    for (;;) {
        if (std::exchange(is_new_, false)) {
            part.closed = chunk_.closed;
            part.clocks = chunk_.clocks;
        }
        while (row_block_ < chunk_.rows.size()) {
            const ChunkRows& rows = chunk_.rows[row_block_];
            if (table_.layout == Layout::kSparse) {
                ++row_block_;
                take_listed(rows, part);
                if (!part.keys.empty()) return true;
                continue;
            }
            while (wanted_range_ < wanted_.size()) {
                const KeyRange both = intersect(rows.range, wanted_[wanted_range_++]);
                if (both.empty()) continue;
                take(rows, both, part);
                return true;
            }
            ++row_block_;
            wanted_range_ = 0;
        }
        if (!part.closed.empty() || !part.clocks.empty()) return true;
        while (entry_ < entries_.size() &&
               !positions_.intersects(PositionSet(std::span(&entries_[entry_].range, 1))))
            ++entry_;
        if (entry_ == entries_.size()) return false;
        WEIR_TRY(load(entries_[entry_++]));
    }
}

}  // namespace weir::checkpoint

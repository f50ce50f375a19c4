// SPDX-License-Identifier: Apache-2.0
#include "lib/data/cache/column_blocks.h"

#include <utility>

#include <fmt/core.h>

#include "lib/data/shortage.h"

namespace weir::data {

struct ColumnBlocks::Cached {
    std::vector<BlockPlace> blocks;
    uint64_t index_bytes;
    BlockReader reader;
    uint64_t memory_bytes;

    Cached(CacheFile file, std::vector<BlockPlace> places, uint64_t row_count, uint64_t of_index,
           uint64_t memory)
        : blocks(std::move(places)),
          index_bytes(of_index),
          reader(std::move(file), blocks, row_count, memory - of_index),
          memory_bytes(memory) {}
};

Result<ColumnBlocks> ColumnBlocks::of_cache(CacheFile file, CacheIndex index,
                                            uint64_t memory_bytes) {
    WEIR_TRY(check_memory(index, memory_bytes, file.names()));
    return or_shortage([&]() -> Result<ColumnBlocks> {
        const uint64_t index_bytes = index.memory_bytes();
        FeatureMatrix matrix;
        matrix.keys = std::move(index.keys);
        matrix.labels = std::move(index.labels);
        matrix.group_begin = std::move(index.group_begin);
        ColumnBlocks blocks(std::move(matrix));
        blocks.cached_ = std::make_shared<Cached>(std::move(file), std::move(index.blocks),
                                                  blocks.row_count(), index_bytes, memory_bytes);
        return blocks;
    });
}

uint64_t ColumnBlocks::nonzero_count(uint32_t group) const noexcept {
    if (cached_) return cached_->blocks[group].shape.nonzero_count;
    return matrix_.offsets[matrix_.group_begin[group + 1]] -
           matrix_.offsets[matrix_.group_begin[group]];
}

uint64_t ColumnBlocks::nonzero_count() const noexcept {
    uint64_t count = 0;
    for (uint32_t group = 0; group < group_count(); ++group)
        count += nonzero_count(group);
    return count;
}

void ColumnBlocks::will_need(uint32_t group) {
    if (cached_) cached_->reader.will_need(group);
}

Result<linalg::Columns> ColumnBlocks::open(uint32_t group) {
    if (!cached_) {
        const linalg::Columns all{matrix_.offsets, matrix_.rows, matrix_.values,
                                  matrix_.row_count()};
        return all.some(matrix_.group_begin[group], matrix_.group_begin[group + 1]);
    }
    WEIR_ASSIGN(const std::span<const std::byte> bytes, cached_->reader.open(group));
    const BlockShape& shape = cached_->blocks[group].shape;
    const auto* const begin = bytes.data();
    linalg::Columns columns;
    columns.offsets = {reinterpret_cast<const uint64_t*>(begin), shape.column_count + 1};
    columns.places = {reinterpret_cast<const uint32_t*>(begin + shape.rows_begin()),
                      shape.nonzero_count};
    if (shape.has_values)
        columns.values = {reinterpret_cast<const float*>(begin + shape.values_begin()),
                          shape.nonzero_count};
    columns.place_count = row_count();
    return columns;
}

void ColumnBlocks::done(uint32_t group) {
    if (cached_) cached_->reader.done(group);
}

uint64_t ColumnBlocks::data_bytes() const noexcept {
    if (!cached_) return matrix_.data_bytes();
    uint64_t bytes = cached_->index_bytes;
    for (const BlockPlace& block : cached_->blocks)
        bytes += block.shape.bytes();
    return bytes;
}

uint64_t ColumnBlocks::memory_bytes() const noexcept {
    return cached_ ? std::min(cached_->memory_bytes, data_bytes()) : matrix_.data_bytes();
}

BlockReader::Counts ColumnBlocks::counts() const {
    return cached_ ? cached_->reader.counts() : BlockReader::Counts{};
}

}  // namespace weir::data

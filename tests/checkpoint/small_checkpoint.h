// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Small checkpoints of two tables whose rows can be told from their keys and a stamp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/checkpoint/chunk_writer.h"
#include "lib/checkpoint/folder.h"
#include "lib/checkpoint/manifest.h"
#include "lib/checkpoint/range_reader.h"
#include "lib/key/narrow_values.h"

namespace weir::testing {

inline TableSchema dense_table(uint64_t key_count = 40) {
    TableSchema table;
    table.id = 0;
    table.name = "weights";
    table.width = 2;
    table.key_count = key_count;
    return table;
}

inline TableSchema sparse_table() {
    TableSchema table;
    table.id = 1;
    table.name = "counts";
    table.layout = Layout::kSparse;
    table.value_type = ValueType::kInt64;
    table.rule = "adagrad";
    return table;
}

/// A dense table with state, in place of the sparse one.
inline TableSchema dense_state_table() {
    TableSchema table = dense_table();
    table.id = 1;
    table.name = "slopes";
    table.rule = "adagrad";
    return table;
}

/// Two dense tables of narrow values with state. As of stamp 0, float16 holds the values exactly.
inline std::vector<TableSchema> narrow_tables() {
    std::vector<TableSchema> tables = {dense_state_table(), dense_state_table()};
    tables[0].name = "brains";
    tables[0].value_type = ValueType::kBFloat16;
    tables[1].name = "halves";
    tables[1].value_type = ValueType::kFloat16;
    tables[1].id = 2;
    return tables;
}

/// The rows of the two tables, by number: the second one has a value of state for each value.
inline RowLayout rows_of(const TableSchema& table) {
    RowLayout rows{.value_type = table.value_type,
                   .width = table.width,
                   .state_bytes = 0,
                   .pushed_type = computed_type(table.value_type),
                   .pushed_values = table.width};
    if (table.id != 0) rows.state_bytes = static_cast<uint32_t>(rows.pushed_bytes());
    return rows;
}

/// What value number `index` of a key is, as of a stamp.
template <class T>
T value_of(uint64_t key, size_t index, uint64_t stamp) {
    return static_cast<T>(key % 1000 * 16 + index + stamp * 100'000);
}

template <class T>
void fill_rows(std::span<const uint64_t> keys, std::span<std::byte> out, uint64_t stamp) {
    const size_t row = out.size() / keys.size() / sizeof(T);
    for (size_t i = 0; i < keys.size() * row; ++i) {
        const T value = value_of<T>(keys[i / row], i % row, stamp);
        std::memcpy(out.data() + i * sizeof(T), &value, sizeof(T));
    }
}

/// Positions cut into `count` ranges of about equal length.
inline std::vector<PositionRange> cut_ring(uint64_t count) {
    std::vector<PositionRange> ranges;
    const uint64_t step = ~uint64_t{0} / count;
    for (uint64_t i = 0; i < count; ++i)
        ranges.push_back({i * step, i + 1 == count ? ~uint64_t{0} : (i + 1) * step - 1});
    return ranges;
}

/// The keys of the sparse table.
inline std::vector<uint64_t> sparse_keys(size_t count = 60) {
    std::vector<uint64_t> keys;
    for (uint64_t i = 0; i < count; ++i)
        keys.push_back(mix64(i * 7919) % 1'000'000'007);
    return keys;
}

inline checkpoint::ChunkWriter small_chunk(const TableSchema& table, PositionRange range,
                                           uint64_t stamp, std::string name) {
    checkpoint::ChunkPlace place = checkpoint::place_in(table, rows_of(table));
    place.range = range;
    checkpoint::ChunkWriter writer(place, std::move(name));
    if (table.layout == Layout::kDense) {
        const PositionMap map = PositionMap::dense(table.key_count);
        // In two blocks, as a shard would add them.
        const KeyRange all{map.first_key_at(range.first), map.end_key_at(range.last)};
        const uint64_t middle = (all.begin + all.end) / 2;
        for (const KeyRange part : {KeyRange{all.begin, middle}, KeyRange{middle, all.end}}) {
            if (part.empty()) continue;
            std::vector<uint64_t> keys;
            for (uint64_t key = part.begin; key < part.end; ++key)
                keys.push_back(key);
            const auto room = writer.add(part);
            if (is_narrow(table.value_type)) {
                std::vector<float> values(keys.size() * table.width);
                fill_rows<float>(keys, std::as_writable_bytes(std::span(values)), stamp);
                narrow_to_nearest(table.value_type, values, room.values.data());
            } else {
                fill_rows<float>(keys, room.values, stamp);
            }
            if (!room.state.empty()) fill_rows<float>(keys, room.state, stamp + 1);
        }
    } else {
        std::vector<uint64_t> keys;
        for (const uint64_t key : sparse_keys(60)) {
            if (range.contains(mix64(key))) keys.push_back(key);
        }
        if (!keys.empty()) {
            const auto room = writer.add(keys);
            fill_rows<int64_t>(keys, room.values, stamp);
            fill_rows<int64_t>(keys, room.state, stamp + 1);
        }
    }
    writer.add_iteration({range, stamp});
    ClockTimes times;
    times.range = range;
    times.workers = {{3, {{range.first, stamp + 5}}}};
    writer.add_clocks(times);
    return writer;
}

/// Writes a chunk; it is on the disk when this returns.
inline Result<checkpoint::ChunkEntry> finish(checkpoint::ChunkWriter writer, checkpoint::Disk& disk,
                                             const std::string& folder) {
    WEIR_ASSIGN(checkpoint::ChunkWriter::Written written, writer.write(disk, folder));
    WEIR_TRY(written.file->sync());
    WEIR_TRY(disk.sync_folder(folder));
    return std::move(written.entry);
}

/// Writes a whole checkpoint of two tables, each in `shards` chunks; `stamp` tells it from others.
inline Status write_tables(checkpoint::Disk& disk, const std::string& folder, uint64_t number,
                           uint64_t stamp, uint64_t shards, std::vector<TableSchema> tables) {
    checkpoint::Manifest manifest;
    manifest.number = number;
    manifest.created_ns = 1'700'000'000'000'000'000;
    manifest.iteration = stamp;
    if (stamp != 0) manifest.closed[sparse_table().id] = stamp;
    manifest.tables = std::move(tables);
    uint32_t shard = 0;
    std::vector<std::unique_ptr<checkpoint::NewFile>> files;  // synced together, as by a shard
    for (const PositionRange range : cut_ring(shards)) {
        for (const TableSchema& table : manifest.tables) {
            WEIR_ASSIGN(checkpoint::ChunkWriter::Written written,
                        small_chunk(table, range, stamp,
                                    checkpoint::chunk_name(number, table.id, range.first, shard))
                            .write(disk, folder));
            manifest.chunks.push_back(std::move(written.entry));
            files.push_back(std::move(written.file));
        }
        ++shard;
    }
    for (const auto& file : files)
        WEIR_TRY(file->sync());
    WEIR_TRY(disk.sync_folder(folder));
    WEIR_TRY(checkpoint::order(manifest));
    return checkpoint::write_manifest(disk, folder, manifest);
}

/// That of dense_table() and sparse_table().
inline Status write_small(checkpoint::Disk& disk, const std::string& folder, uint64_t number,
                          uint64_t stamp, uint64_t shards, uint64_t dense_keys = 40) {
    return write_tables(disk, folder, number, stamp, shards,
                        {dense_table(dense_keys), sparse_table()});
}

/// Writes a checkpoint that names the chunks of the dense table of checkpoint `before` again, and has
/// the sparse table as of the same stamp in chunks of its own.
inline Status write_increment(checkpoint::Disk& disk, const std::string& folder, uint64_t number,
                              uint64_t before, uint64_t stamp) {
    WEIR_ASSIGN(checkpoint::Manifest manifest, checkpoint::read_manifest(disk, folder, before));
    manifest.number = number;
    for (checkpoint::ChunkEntry& chunk : manifest.chunks) {
        if (chunk.table != sparse_table().id) continue;
        const std::string name = checkpoint::chunk_name(number, chunk.table, chunk.range.first, 0);
        WEIR_ASSIGN(chunk,
                    finish(small_chunk(sparse_table(), chunk.range, stamp, name), disk, folder));
    }
    WEIR_TRY(checkpoint::check_chunks(disk, folder, manifest));
    return checkpoint::write_manifest(disk, folder, manifest);
}

/// Whether the rows of a part are those of a stamp.
template <class T>
bool rows_are(std::span<const uint64_t> keys, std::span<const std::byte> rows, uint64_t stamp) {
    std::vector<std::byte> expected(rows.size());
    if (!keys.empty()) fill_rows<T>(keys, expected, stamp);
    return std::ranges::equal(expected, rows);
}

/// Reads a checkpoint with `readers` readers of equal shares, and checks that all rows are there
/// once and of this stamp. What is wrong; empty if nothing is.
inline std::string check_small(checkpoint::Disk& disk, const std::string& folder, uint64_t number,
                               uint64_t stamp, uint64_t readers) {
    const Result<checkpoint::Manifest> manifest = checkpoint::read_manifest(disk, folder, number);
    if (!manifest) return manifest.error().message();
    std::vector<uint64_t> dense;
    std::vector<uint64_t> sparse;
    for (const TableSchema& table : manifest->tables) {
        for (const PositionRange range : cut_ring(readers)) {
            checkpoint::RangeReader reader(disk, folder, *manifest, table, rows_of(table),
                                           PositionSet(std::span(&range, 1)));
            checkpoint::RangeReader::Part part;
            for (;;) {
                const Result<bool> more = reader.next(part);
                if (!more) return more.error().message();
                if (!*more) break;
                std::vector<uint64_t> keys(part.keys.begin(), part.keys.end());
                for (uint64_t key = part.range.begin; key < part.range.end; ++key)
                    keys.push_back(key);
                const bool is_dense = table.layout == Layout::kDense;
                const bool is_right = is_dense ? rows_are<float>(keys, part.values, stamp)
                                               : rows_are<int64_t>(keys, part.values, stamp) &&
                                                     rows_are<int64_t>(keys, part.state, stamp + 1);
                if (!is_right) return "rows of another stamp, or of other keys";
                for (const auto& closed : part.closed) {
                    if (closed.iteration != stamp) return "iterations of another stamp";
                }
                std::vector<uint64_t>& all = is_dense ? dense : sparse;
                all.insert(all.end(), keys.begin(), keys.end());
            }
        }
    }
    std::ranges::sort(dense);
    std::ranges::sort(sparse);
    std::vector<uint64_t> all_sparse = sparse_keys();
    std::ranges::sort(all_sparse);
    if (sparse != all_sparse) return "not every row of the sparse table once";
    for (uint64_t key = 0; key < dense.size(); ++key) {
        if (dense[key] != key) return "not every row of the dense table once";
    }
    return dense.size() == manifest->tables[0].key_count ? "" : "rows of the dense table missing";
}

}  // namespace weir::testing

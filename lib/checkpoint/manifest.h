// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Manifest: what a checkpoint consists of. A checkpoint is there when its manifest is.
///
/// The file, little-endian: magic (8 bytes), version (4), number, time, iteration (8 each), whether
/// there is an iteration (1); the number of tables (4); of each its number (4), its schema (a text)
/// and its last closed iteration (8); the number of chunks (4); of each table (4), first and last position, rows, bytes,
/// checksum (8 each), name (a text); XXH3-64 of all that, seeded with that of the file's name (8).
/// The version is the form of the schemas (lib/store/schema_codec.h); those from 1 on are read.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/checkpoint/disk.h"
#include "lib/key/position.h"
#include "lib/store/table_schema.h"

namespace weir::checkpoint {

/// A chunk, as a manifest names it. An older checkpoint may have written it.
struct ChunkEntry {
    uint32_t table = 0;
    PositionRange range;
    uint64_t row_count = 0;
    uint64_t size_bytes = 0;
    uint64_t checksum = 0;
    std::string name;
    friend bool operator==(const ChunkEntry&, const ChunkEntry&) = default;
};

struct Manifest {
    static constexpr uint32_t kVersion = 2;
    static constexpr uint64_t kBytesMax = uint64_t{1} << 30;

    uint64_t number = 0;      ///< later checkpoints of a folder have higher ones
    uint64_t created_ns = 0;  ///< since 1970, by the clock of the host that wrote it
    /// Of the table that has come furthest, of those that have closed one since the checkpoint before:
    /// all workers' pushes up to this iteration are in, and none of a later one. Nothing: no table has
    /// iterations, and it shows one instant between pushes.
    std::optional<uint64_t> iteration;
    std::vector<TableSchema> tables;  ///< ascending by id
    /// By table, of those that have closed any: the same as `iteration`.
    std::map<uint32_t, uint64_t> closed;
    /// Ascending by table and position; those of a table cover the ring once.
    std::vector<ChunkEntry> chunks;

    /// The table of this name, or null.
    [[nodiscard]] const TableSchema* find_table(std::string_view name) const noexcept;

    /// The last closed iteration of a table; 0: none.
    [[nodiscard]] uint64_t closed_of(uint32_t table) const noexcept {
        const auto found = closed.find(table);
        return found == closed.end() ? 0 : found->second;
    }

    /// Of one table.
    [[nodiscard]] std::span<const ChunkEntry> chunks_of(uint32_t table) const noexcept;

    /// Bytes of all chunks, and of those that this checkpoint has written itself.
    [[nodiscard]] uint64_t bytes() const noexcept;
    [[nodiscard]] uint64_t new_bytes() const noexcept;

    friend bool operator==(const Manifest&, const Manifest&) = default;
};

[[nodiscard]] std::vector<std::byte> encode_manifest(const Manifest& manifest);
/// Errors: kParse, naming the file; kUnavailable: a newer version of Weir has written it
[[nodiscard]] Result<Manifest> decode_manifest(const std::string& name,
                                               std::span<const std::byte> bytes);

/// Brings tables and chunks into their order, and checks that every table is complete.
/// Errors: kInvalidArgument, naming the table
[[nodiscard]] Status order(Manifest& manifest);

/// What tells it from every other manifest.
[[nodiscard]] uint64_t checksum_of(const Manifest& manifest);

/// Whether the files of all chunks are there and have their sizes; somebody may have removed one of an
/// older checkpoint, or cut it. Chunks are not read: ChunkCheck does that.
/// Errors: kNotFound, kParse, naming the first; those of Disk
[[nodiscard]] Status check_chunks(Disk& disk, const std::string& folder, const Manifest& manifest);

/// Writes the manifest under another name, and renames it when it is on the disk. All chunks must
/// be there before. Errors: those of Disk
[[nodiscard]] Status write_manifest(Disk& disk, const std::string& folder,
                                    const Manifest& manifest);
/// Errors: those of Disk and of decode_manifest()
[[nodiscard]] Result<Manifest> read_manifest(Disk& disk, const std::string& folder,
                                             uint64_t number);

}  // namespace weir::checkpoint

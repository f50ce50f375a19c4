// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The file of a column cache, from its start:
///
///     header   CacheHeader
///     front    the source, the report of reading, the sizes and checksums of the groups
///     keys     8 bytes per column, group by group, sorted within each
///     counts   of non-zeros, 4 bytes per column
///     labels   1 byte per row
///     blocks   one per group, at multiples of kBlockAlign
///
/// A block has the non-zeros of a group: where each column begins in the block (8 bytes each, one
/// more than columns), the rows (4 bytes each), and the values (4 bytes each) if not all are 1.
/// Numbers are little-endian. Everything has a checksum, and is checked when it is read: no file,
/// however damaged, makes a reader touch memory outside of its lists.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/data/cache/cache_file.h"
#include "lib/data/libsvm_stream.h"

namespace weir::data {

inline constexpr uint32_t kCacheVersion = 1;
inline constexpr uint64_t kBlockAlign = 4096;
inline constexpr std::string_view kCacheMagic = "weircols";

/// Every version begins with the first two fields.
struct CacheHeader {
    char magic[8];
    uint32_t version;
    uint32_t front_bytes;
    uint64_t file_bytes;
    uint64_t front_checksum;
    uint64_t checksum;  ///< of the fields before
};

static_assert(sizeof(CacheHeader) == 40);

struct BlockShape {
    uint64_t column_count = 0;
    uint64_t nonzero_count = 0;
    bool has_values = false;

    [[nodiscard]] uint64_t rows_begin() const noexcept { return 8 * (column_count + 1); }

    [[nodiscard]] uint64_t values_begin() const noexcept {
        return rows_begin() + 4 * nonzero_count;
    }

    [[nodiscard]] uint64_t bytes() const noexcept {
        return values_begin() + (has_values ? 4 * nonzero_count : 0);
    }
};

struct BlockPlace {
    BlockShape shape;
    uint64_t place = 0;  ///< in the file
    uint64_t checksum = 0;
};

/// All but the blocks: what lies in memory while a cache is used.
struct CacheIndex {
    std::string source;  ///< what it was made of, a line for each fact
    ReadReport report;
    bool has_values = false;
    std::vector<uint64_t> keys;
    std::vector<uint32_t> counts;  ///< of non-zeros, per key; only to plan the groups
    std::vector<int8_t> labels;
    std::vector<uint64_t> group_begin;  ///< as FeatureMatrix::group_begin
    std::vector<BlockPlace> blocks;

    /// Without the counts.
    [[nodiscard]] uint64_t memory_bytes() const noexcept;
    [[nodiscard]] uint64_t largest_block_bytes() const noexcept;
};

/// A hash of the bytes that every build of the program computes alike.
[[nodiscard]] uint64_t cache_checksum(std::span<const std::byte> bytes, uint64_t seed = 0) noexcept;

/// What belongs in CacheHeader::checksum.
[[nodiscard]] uint64_t header_checksum(const CacheHeader& header) noexcept;

/// Sets the places of the blocks; returns the size of the file.
[[nodiscard]] uint64_t place_blocks(CacheIndex& index);

/// Writes all but the blocks. Errors: those of CacheFile::write()
[[nodiscard]] Status write_index(CacheFile& file, const CacheIndex& index, uint64_t file_bytes);

/// Errors: kIo if the file cannot be read; kParse, with what to do, if it is no cache, one of another
///     version, or damaged
[[nodiscard]] Result<CacheIndex> read_index(const CacheFile& file);

/// Why a block must not be used, as static text; nullopt: its places and rows are in range, and
/// its checksum is right.
[[nodiscard]] std::optional<std::string_view> block_damage(std::span<const std::byte> bytes,
                                                           const BlockPlace& block, uint64_t group,
                                                           uint64_t row_count);

/// Errors: kNoMemory if the limit leaves no room for the index and two of the largest blocks: one
///     in use and one that is read meanwhile
[[nodiscard]] Status check_memory(const CacheIndex& index, uint64_t memory_bytes,
                                  const CacheNames& names);

/// The error for a file that is not what was written.
[[nodiscard]] Error damaged_cache(const CacheFile& file, std::string_view what);

}  // namespace weir::data

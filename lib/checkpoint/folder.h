// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The folder that checkpoints are in: the names of its files, which checkpoints are there, and
/// removing old ones.
///
/// Every name begins with the number of the checkpoint that wrote the file:
/// 000007.manifest, 000007.t0.8000000000000000.s3.chunk; and .part behind a manifest that is not
/// whole. Other files may lie there, too, such as weir.owner (folder_owner.h); they are left alone.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/checkpoint/disk.h"

namespace weir::checkpoint {

inline constexpr std::string_view kPartSuffix = ".part";

[[nodiscard]] std::string manifest_name(uint64_t number);
/// Of the rows from this position on. `writer`: no two of a checkpoint are equal (the shard).
[[nodiscard]] std::string chunk_name(uint64_t checkpoint, uint32_t table, uint64_t first,
                                     uint32_t writer);
[[nodiscard]] bool is_chunk_name(std::string_view name) noexcept;
/// The checkpoint that has written a chunk of this name.
[[nodiscard]] uint64_t writer_of(std::string_view chunk_name) noexcept;
[[nodiscard]] std::string path_of(const std::string& folder, std::string_view name);

/// The numbers of the checkpoints, ascending. Errors: those of Disk
[[nodiscard]] Result<std::vector<uint64_t>> list_checkpoints(Disk& disk, const std::string& folder);
/// The error of a folder without any.
[[nodiscard]] Error no_checkpoint(const std::string& folder);
/// The newest one. Errors: those of Disk; kNotFound if there is none
[[nodiscard]] Result<uint64_t> latest(Disk& disk, const std::string& folder);
/// Above that of every file that is there, also of what was interrupted. Errors: those of Disk
[[nodiscard]] Result<uint64_t> next_number(Disk& disk, const std::string& folder);

struct Pruned {
    std::vector<uint64_t> checkpoints;  ///< that are gone
    size_t chunk_count = 0;             ///< files that no manifest named any more
};

/// What is looked at of the checkpoints that stay, before others are removed.
enum class PruneCheck : uint8_t {
    kSizes,  ///< as check_chunks() does: of one that was just written
    kBytes,  ///< of the newest one also every byte
};

/// Which checkpoints stay.
struct Keep {
    size_t newest = 1;                    ///< so many, and at least 1
    std::optional<uint64_t> needed = {};  ///< this one, too
    uint64_t before = 0;                  ///< and all with a lower number, which are not looked at
    /// And all from the first to the second number, which are not counted: they are another job's.
    std::pair<uint64_t, uint64_t> others = {1, 0};

    [[nodiscard]] bool are_others(uint64_t number) const noexcept {
        return number >= others.first && number <= others.second;
    }
};

/// Removes the other checkpoints, then the chunks that none of those that stay names, then what was
/// left of interrupted ones. Files with a higher number than the newest checkpoint stay: one may just
/// be written.
/// Errors: those of Disk, and of read_manifest(), check_chunks() and ChunkCheck, if one that stays
///         may be of no use; then no file is removed, and the text says what to do
[[nodiscard]] Result<Pruned> prune(Disk& disk, const std::string& folder, const Keep& keep,
                                   PruneCheck check);

/// Numbers of checkpoints that failed, or of which nobody knows.
struct Unfinished {
    uint64_t lowest = 0;
    uint64_t highest = std::numeric_limits<uint64_t>::max();
    std::span<const uint64_t> spared = {};  ///< not these
};

/// The chunks and parts of manifests that have one of these numbers, and a higher one than the newest
/// checkpoint: what is left of some that failed, if nobody is writing them; but no chunk that a
/// complete one names. Errors: those of Disk and of read_manifest()
[[nodiscard]] Result<std::vector<std::string>> list_unfinished(Disk& disk,
                                                               const std::string& folder,
                                                               const Unfinished& numbers = {});
/// Removes them. Returns how many files. Errors: the same
[[nodiscard]] Result<size_t> remove_unfinished(Disk& disk, const std::string& folder,
                                               const Unfinished& numbers = {});

/// Writes a file that was not there; removes it if it cannot be written whole. Neither its content
/// nor its name need be on the disk when this returns. Errors: those of Disk
[[nodiscard]] Result<std::unique_ptr<NewFile>> write_new_file(Disk& disk, const std::string& folder,
                                                              const std::string& name,
                                                              std::span<const std::byte> bytes);

/// The same; its content is on the disk when this returns; its name may not be.
[[nodiscard]] Status write_file(Disk& disk, const std::string& folder, const std::string& name,
                                std::span<const std::byte> bytes);

}  // namespace weir::checkpoint

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ColumnCache: training data by column in a file, for data that do not fit into memory. The text
/// is read once; later runs with the same files find the cache. Several workers share a folder:
/// the name of a worker's file says which parts of the training files it has.
///
/// ```cpp
/// WEIR_ASSIGN(ColumnCache cache, ColumnCache::open(paths, read, {.folder = "/disk/cache", ...}));
/// const FeatureGroups groups = plan(cache.keys(), cache.counts());  // with the other workers
/// WEIR_ASSIGN(ColumnBlocks blocks, std::move(cache).finish(groups));
/// ```
///
/// A file gets its name when it is complete and on the disk. A process that dies before leaves at
/// most a file `NAME.building`, which the next one takes over. While a file is made the folder needs
/// up to 12 bytes per non-zero (20 if not all values are 1); the file has 4 (8). Meanwhile the
/// features take up to about 30 bytes of memory each, beside any limit; later they take 8.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/data/cache/cache_file.h"
#include "lib/data/cache/cache_format.h"
#include "lib/data/cache/column_blocks.h"
#include "lib/data/cache/column_sort.h"
#include "lib/data/examples.h"
#include "lib/data/feature_matrix.h"

namespace weir::data {

struct CacheOptions {
    std::string folder;
    uint64_t memory_bytes = 0;  ///< for data: features, labels and blocks; else for sorting them
    CacheNames names = {};
};

/// Thread: one.
class ColumnCache {
public:
    /// Opens the cache of this worker's share of the files. If there is none, reads the share into
    /// files without names in the folder; only labels and features stay in memory.
    ///
    /// read: as read_libsvm(); classes other than -1 and +1 are not supported
    /// Errors: those of read_libsvm(); kInvalidArgument for standard input; kParse for a cache that
    ///     is damaged, or of another version or other data; kBusy if another process makes it just
    ///     now; kIo, also without space. They name the file and say what to do.
    [[nodiscard]] static Result<ColumnCache> open(std::span<const std::string> paths,
                                                  const ReadOptions& read, CacheOptions options);

    ColumnCache(ColumnCache&&) noexcept = default;
    ColumnCache& operator=(ColumnCache&&) = delete;
    ColumnCache(const ColumnCache&) = delete;
    ColumnCache& operator=(const ColumnCache&) = delete;
    /// Without a finish() before, it removes what it has begun.
    ~ColumnCache();

    /// The different features, in any order.
    [[nodiscard]] std::span<const uint64_t> keys() const noexcept { return index_.keys; }

    /// How many examples have each of the keys.
    [[nodiscard]] std::span<const uint32_t> counts() const noexcept { return index_.counts; }

    /// As of the first reading, but for the time.
    [[nodiscard]] const ReadReport& report() const noexcept { return index_.report; }

    /// Whether the text was not read.
    [[nodiscard]] bool was_found() const noexcept { return bool(found_); }

    /// The least number of blocks of equal size of which so many fit into memory at a time; of a
    /// cache that was found, the number that it has.
    [[nodiscard]] uint32_t block_count_min(uint32_t at_once) const noexcept;

    /// Sorts what was read into the columns of `groups`, and opens it.
    ///
    /// stop: as ReadOptions::stop, while it sorts
    /// Errors: kParse if the cache that was found has other groups; kNoMemory if
    ///     CacheOptions::memory_bytes are too few; kCancelled after `stop`; kIo
    [[nodiscard]] Result<ColumnBlocks> finish(const FeatureGroups& groups,
                                              const std::function<bool()>& stop = {}) &&;

private:
    ColumnCache() = default;

    [[nodiscard]] Status read_text(std::span<const std::string> paths, const ReadOptions& read);
    [[nodiscard]] Status sort(const FeatureGroups& groups, const std::function<bool()>& stop);
    [[nodiscard]] Status check_groups(const FeatureGroups& groups) const;

    CacheOptions options_;
    std::string path_;
    CacheFile found_;     // the finished cache
    CacheFile building_;  // else, the one that is made
    CacheIndex index_;    // keys: of one not found, in order of appearance
    std::vector<RowSpill> spills_;
};

/// The name of a worker's file in the folder: "part-2-of-8.columns".
[[nodiscard]] std::string cache_name(std::span<const Part> parts);

}  // namespace weir::data

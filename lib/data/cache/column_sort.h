// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// sort_columns: rows in spills become the blocks of a column cache, within a limit of memory. It
/// writes every non-zero twice: first to the run of its blocks, some groups that fit into memory
/// together, then, run by run, to its column.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "lib/data/cache/cache_format.h"
#include "lib/data/cache/row_spill.h"

namespace weir::data {

struct SortOptions {
    std::string run_path;       ///< a free name in the folder for a file that has none in the end
    uint64_t memory_bytes = 0;  ///< for buffers; at least as much as the largest block
    std::function<bool()> stop = {};  ///< as ReadOptions::stop
};

/// Writes the blocks of `index`, whose places and shapes are set, and sets their checksums. The
/// rows of the spills follow one another.
///
/// column_of: per feature of the spills
/// Errors: those of CacheFile; kCancelled after options.stop
[[nodiscard]] Status sort_columns(std::vector<RowSpill>&& spills, std::vector<uint32_t>&& column_of,
                                  const SortOptions& options, CacheFile& file, CacheIndex& index);

}  // namespace weir::data

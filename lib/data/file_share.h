// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Who reads what: the files are divided among workers by rules that need no messages.

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace weir::data {

/// One of `count` readers that together read everything once.
struct Part {
    uint32_t index = 0;
    uint32_t count = 1;
};

/// What one reader reads of one file.
struct FileShare {
    std::string path;
    bool gzip = false;
    bool stream = false;  ///< standard input that is no file: read once, from where it stands
    /// Lines that start in [begin, end) of the file; everything for gzip.
    uint64_t begin = 0;
    uint64_t end = std::numeric_limits<uint64_t>::max();
    /// Of the pieces that the stream comes in, those with number % pieces.count == pieces.index.
    Part pieces;
};

/// The share of `part`. Plain files, laid end to end, are cut into part.count stretches of equal
/// bytes. A gzip file cannot be entered in the middle: if there are enough of them every reader
/// gets whole ones, else every reader unpacks all of them and parses every part.count-th piece.
///
/// A path `-` is standard input.
///
/// Errors: a path that is missing, a directory, not a regular file, empty, unreadable or packed by
///     something other than gzip
[[nodiscard]] Result<std::vector<FileShare>> share_files(std::span<const std::string> paths,
                                                         Part part);

}  // namespace weir::data

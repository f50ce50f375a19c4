// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// share_files: divides files among readers by rules that need no messages.

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

/// The part of one file that one reader reads.
struct FileShare {
    std::string path;
    bool gzip = false;
    bool stream = false;  ///< standard input that is not a file: read once, from its position
    /// Lines that start in [begin, end) of the file; the whole file for gzip.
    uint64_t begin = 0;
    uint64_t end = std::numeric_limits<uint64_t>::max();
    /// Of the pieces of LineStream, those with number % pieces.count == pieces.index.
    Part pieces;
    uint64_t piece_bytes =
        kPieceBytes;  ///< of LineStream, which reads so much at once; more for a longer line

    static constexpr uint64_t kPieceBytes = uint64_t{1} << 20;
};

/// Returns the share of the reader `part`. Plain files, laid end to end, are cut into part.count
/// stretches of equal bytes. A gzip file cannot be read from the middle. If there are at least
/// part.count gzip files, each reader gets whole ones; else every reader unpacks all of them and
/// parses every part.count-th piece.
///
/// A path `-` is standard input.
///
/// Errors: a path that is missing, a directory, not a regular file, empty, unreadable or packed
///     by something other than gzip; a stream with more than one reader
[[nodiscard]] Result<std::vector<FileShare>> share_files(std::span<const std::string> paths,
                                                         Part part);

/// All of each file, in their order. Errors: as share_files()
[[nodiscard]] Result<std::vector<FileShare>> whole_files(std::span<const std::string> paths);

}  // namespace weir::data

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// parse_piece: parses lines of a LineStream. Its errors name file, line and column.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/data/libsvm_stream.h"
#include "lib/data/text/line_stream.h"

namespace weir::data {

/// Where lines come from.
struct PieceSource {
    const LineStream& stream;
    std::span<const std::string> paths;  ///< all files, for messages
    uint64_t skip_bad;                   ///< as StreamOptions::skip_bad
    const LibsvmFormat& format;
};

/// Appends the examples of `piece`, whole lines that begin at byte `begin` of what LineStream::next() has returned last.
/// Bad lines are counted in `report`; one more than skip_bad is an error.
/// Errors: kParse; kIo if the file cannot be read again for the number of a line
[[nodiscard]] Status parse_piece(const PieceSource& from, uint64_t begin, std::string_view piece,
                                 ParsedLines& lines, ReadReport& report);

}  // namespace weir::data

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// stream_libsvm: reads and parses LIBSVM files, piece by piece. Its errors name file, line and
/// column.

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "lib/base/result.h"
#include "lib/data/file_share.h"
#include "lib/data/libsvm_parser.h"

namespace weir::data {

/// Counts of what was read and what was left out.
struct ReadReport {
    uint64_t text_bytes = 0;  ///< unpacked
    uint64_t example_count = 0;
    uint64_t nonzero_count = 0;
    uint64_t bad_line_count = 0;
    std::string first_bad_line;  ///< the message for it; empty if there was none
    LabelCensus labels;          ///< of the examples, and of lines whose label stands for no class
    double seconds = 0;

    void add(const ReadReport& other);
};

/// Takes the examples of one piece; an error ends the reading.
using LinesConsumer = std::function<Status(const ParsedLines&)>;

struct StreamOptions {
    Part part;
    uint64_t skip_bad = 0;  ///< this many bad lines are left out and counted; the next is an error
    LibsvmFormat format = {};
    std::function<bool()> stop = {};  ///< true: reading ends with kCancelled soon; may be empty
};

/// Reads the share of options.part of the files, and calls `consume` with the examples of each
/// piece.
///
/// Errors: those of share_files(), LineStream and `consume`; kParse for a bad line, and for
///     labels that format.labels does not cover (see check_labels()); kCancelled after
///     options.stop
/// Thread: any; one call per part
[[nodiscard]] Result<ReadReport> stream_libsvm(std::span<const std::string> paths,
                                               const StreamOptions& options,
                                               const LinesConsumer& consume);

}  // namespace weir::data

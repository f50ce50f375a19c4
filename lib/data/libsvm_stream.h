// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// stream_libsvm: LIBSVM files from disk to parsed examples, piece by piece, with errors that name
/// file, line and column.

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "lib/base/result.h"
#include "lib/data/file_share.h"
#include "lib/data/libsvm_parser.h"

namespace weir::data {

/// What was read, and what was left out.
struct ReadReport {
    uint64_t text_bytes = 0;  ///< unpacked
    uint64_t example_count = 0;
    uint64_t nonzero_count = 0;
    uint64_t bad_line_count = 0;
    std::string first_bad_line;  ///< the message for it; empty if there was none
    LabelCensus labels;          ///< of the examples, and of lines whose label is not understood
    double seconds = 0;

    void add(const ReadReport& other);
};

/// Takes the examples of one piece; an error ends the reading.
using LinesConsumer = std::function<Status(const ParsedLines&)>;

struct StreamOptions {
    Part part;
    uint64_t skip_bad = 0;  ///< so many bad lines are left out and counted; the next is an error
    LibsvmFormat format = {};
    std::function<bool()> stop = {};  ///< true: reading ends with kCancelled soon; may be empty
};

/// Reads this part's share of the files.
///
/// Errors:    of share_files() and LineStream; Errc::kParse for a line, and for labels that mean
///            something else than format.labels says (see check_labels()); the consumer's
/// Thread:    any; one call per part
[[nodiscard]] Result<ReadReport> stream_libsvm(std::span<const std::string> paths,
                                               const StreamOptions& options,
                                               const LinesConsumer& consume);

}  // namespace weir::data

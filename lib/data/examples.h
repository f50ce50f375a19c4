// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Examples: what was read, row by row, in pieces that are freed as they move into a FeatureMatrix.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/data/libsvm_stream.h"

namespace weir::data {

/// Some consecutive examples. Features are indices into Examples::keys.
struct RowChunk {
    std::vector<int8_t> labels;
    std::vector<uint32_t> lengths;
    std::vector<uint32_t> features;
    std::vector<float> values;  ///< empty: all are 1
};

struct Examples {
    std::vector<uint64_t> keys;  ///< the different feature numbers, in order of appearance
    std::vector<RowChunk> chunks;
    ReadReport report;
};

struct ReadOptions {
    Part part;                  ///< which worker of how many
    uint32_t thread_count = 1;  ///< threads of this worker; each is a part of its own
    uint64_t skip_bad = 0;      ///< bad lines to leave out, for all threads together
    LibsvmFormat format = {};
    std::function<bool()> stop = {};  ///< true: reading ends with kCancelled soon; thread: any
};

/// Reads this worker's share of LIBSVM files. No examples at all is no error here: a share may be
/// empty where the files are small.
///
/// Errors: of stream_libsvm(); kNoMemory where this share does not fit, or no thread starts
[[nodiscard]] Result<Examples> read_libsvm(std::span<const std::string> paths,
                                           const ReadOptions& options);

}  // namespace weir::data

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Examples: the examples that a worker read, row by row, in chunks. make_feature_matrix() frees
/// the chunks one by one as it moves them into a FeatureMatrix.

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
    std::vector<float> numbers;  ///< with LibsvmFormat::any_label
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
    std::vector<Part> parts = {Part{}};  ///< this worker's; those of all workers, of one count
    uint32_t thread_count = 1;           ///< threads of this worker; each reads parts of its own
    uint64_t skip_bad = 0;               ///< bad lines to leave out, for all threads together
    LibsvmFormat format = {};
    /// May be empty. If it returns true, reading soon ends with kCancelled. Thread: any.
    std::function<bool()> stop = {};
};

/// Fails if what was read has more bad lines than options.skip_bad, or too many examples. Errors:
/// kParse, kOutOfRange
[[nodiscard]] Status check_report(const ReadReport& report, std::span<const std::string> paths,
                                  const ReadOptions& options);

/// Reads this worker's share of LIBSVM files. It is no error if the share has no examples: it may
/// be empty if the files are small.
///
/// Errors: those of stream_libsvm(); kNoMemory if the share does not fit into memory or a thread
///     cannot start; kOutOfRange for more than 2^32 - 1 examples
[[nodiscard]] Result<Examples> read_libsvm(std::span<const std::string> paths,
                                           const ReadOptions& options);

}  // namespace weir::data

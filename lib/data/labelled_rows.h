// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// read_libsvm_rows: examples from LIBSVM files as a sparse matrix by rows, whose columns stand for keys of a table.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/linalg/sparse.h"

namespace weir {

/// Examples. Column j of `rows` is feature keys[j]: so `keys` is the list to pull, and what was pulled is w.
struct LabelledRows {
    std::vector<uint64_t> keys;  ///< of the features that occur, ascending
    /// Columns of a row ascend. No values: all are 1.
    linalg::SparseRows<float, int64_t> rows;
    std::vector<float> labels;     ///< of each row, as the file has it
    uint64_t bad_line_count = 0;   ///< that were left out
    std::string first_bad_line{};  ///< why, for people; empty: there is none
};

struct LibsvmOptions {
    /// Reads one part of so many of nearly as many bytes, counted from 0: all workers together read everything once.
    uint32_t part = 0;
    uint32_t parts = 1;
    uint32_t threads = 1;
    uint64_t skip_bad = 0;  ///< so many lines may be bad, and are left out
};

/// Reads lines `label feature:value feature:value ... # comment`. A label is any finite number, a feature 0 to
/// 2^64 - 1, in any order. Files may be gzip; the path `-` is standard input. It is no error if the part has no
/// examples: files may be small.
///
/// Errors: kNotFound, kIo and the like for a file; kParse for a bad line, with file, line, column and what is wrong;
///         kInvalidArgument for a part that there is not; kNoMemory
[[nodiscard]] Result<LabelledRows> read_libsvm_rows(std::span<const std::string> paths,
                                                    const LibsvmOptions& options = {});

}  // namespace weir

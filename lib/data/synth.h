// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// write_click_log: writes a synthetic click log, LIBSVM text with a chosen number of examples
/// and features and a chosen skew.

#include <cstdint>
#include <functional>
#include <string>

#include "lib/base/result.h"

namespace weir::data {

struct SynthOptions {
    uint64_t example_count = 1'000'000;
    uint64_t feature_count = 10'000'000;  ///< numbers 1 to feature_count
    uint32_t per_example = 40;            ///< different features in every example, all with value 1
    double zipf_exponent = 1.1;  ///< the frequency of the r-th most common is ~ r^-exponent
    uint64_t seed = 1;
};

struct SynthReport {
    uint64_t example_count = 0;
    uint64_t positive_count = 0;
    uint64_t written_bytes = 0;
    double seconds = 0;
};

/// Writes a click log to `path`. One feature in ten has a hidden weight; a label is +1 with the
/// logistic probability of the example's sum of weights. The same options give the same bytes, on
/// any number of cores. The file is written whole or not at all.
///
/// progress: called every few MiB with the number of examples done; may be empty
/// Errors:   kInvalidArgument for invalid options; kIo with the system's error
[[nodiscard]] Result<SynthReport> write_click_log(
    const std::string& path, const SynthOptions& options,
    const std::function<void(uint64_t examples_done)>& progress = {});

}  // namespace weir::data

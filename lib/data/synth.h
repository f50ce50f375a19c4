// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A synthetic click log: LIBSVM text with as many examples, features and as skewed as wanted.

#include <cstdint>
#include <functional>
#include <string>

#include "lib/base/result.h"

namespace weir::data {

struct SynthOptions {
    uint64_t example_count = 1'000'000;
    uint64_t feature_count = 10'000'000;  ///< numbers 1 to feature_count
    uint32_t per_example = 40;            ///< different features in every example, all with value 1
    double zipf_exponent = 1.1;           ///< the r-th most common feature occurs like r^-exponent
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
/// any number of cores. The file is there whole or not at all.
///
/// progress: called every few MiB with the examples done; may be empty
/// Errors:   kInvalidArgument for options that make no sense; kIo with what the system said
[[nodiscard]] Result<SynthReport> write_click_log(
    const std::string& path, const SynthOptions& options,
    const std::function<void(uint64_t examples_done)>& progress = {});

}  // namespace weir::data

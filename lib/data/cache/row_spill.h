// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RowSpill: examples in a file without a name, in the order in which they were written, until a
/// column cache has been made of them. In memory stays what is needed to plan the columns: labels,
/// features and how often they occur.

#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "lib/data/cache/cache_file.h"
#include "lib/data/feature_dictionary.h"
#include "lib/data/libsvm_parser.h"

namespace weir::data {

/// Some consecutive examples, as they are read back. Features: indices of SpillFeatures.
struct SpilledRows {
    std::span<const uint32_t> lengths;   ///< non-zeros per row
    std::span<const uint32_t> features;  ///< row by row
    std::span<const float> values;       ///< parallel to features; empty: all are 1
};

/// The features of several spills, and how many rows have each. One list for all of them: a list
/// for each reading thread would take their memory as often.
class SpillFeatures {
public:
    /// Sets out[i] to the index of keys[i] and counts it. Errors: those of
    /// FeatureDictionary::insert(). Thread: any
    [[nodiscard]] Status add(std::span<const uint64_t> keys, std::span<uint32_t> out);

    /// Leaves nothing.
    [[nodiscard]] std::vector<uint64_t> take_keys();
    [[nodiscard]] std::vector<uint32_t> take_counts();

private:
    std::mutex mutex_;  // of all below, while threads read
    FeatureDictionary dictionary_;
    std::vector<uint32_t> counts_;
};

/// Thread: one.
class RowSpill {
public:
    explicit RowSpill(CacheFile file) : file_(std::move(file)) {}

    /// Errors: those of CacheFile::write() and FeatureDictionary::insert()
    [[nodiscard]] Status add(const ParsedLines& lines, SpillFeatures& known);

    using Consumer = std::function<Status(const SpilledRows& rows)>;

    /// Calls `consume` with all rows, in their order, and gives back the space of those that were
    /// consumed: call it once. Errors: those of CacheFile::read() and of `consume`
    [[nodiscard]] Status drain(const Consumer& consume);

    std::vector<int8_t> labels;
    bool all_ones = true;

private:
    [[nodiscard]] Status append(std::span<const std::byte> bytes);

    CacheFile file_;
    uint64_t bytes_ = 0;
    std::vector<uint32_t> words_;  // of the rows that are written or read now
    std::vector<float> values_;    // of the rows that are read now
};

}  // namespace weir::data

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FeatureMatrix: a worker's training data by feature (compressed columns). The features of a
/// group lie together.

#include <cstdint>
#include <functional>
#include <vector>

#include "lib/data/examples.h"

namespace weir::data {

/// Column c holds the non-zeros of feature keys[c]: their rows, rising, are rows[offsets[c]] up
/// to, but not including, rows[offsets[c + 1]]. A non-zero takes 4 bytes if all values are 1
/// (click logs), else 8.
struct FeatureMatrix {
    std::vector<uint64_t> keys;     ///< sorted within each group
    std::vector<uint64_t> offsets;  ///< one more than columns
    std::vector<uint32_t> rows;
    std::vector<float> values;          ///< parallel to rows; empty: all are 1
    std::vector<int8_t> labels;         ///< -1 or +1, per row; 0 with LibsvmFormat::any_label
    std::vector<float> targets;         ///< with that, RowChunk::numbers, per row
    std::vector<uint64_t> group_begin;  ///< group g is columns [group_begin[g], group_begin[g + 1])

    [[nodiscard]] uint64_t row_count() const noexcept { return labels.size(); }

    [[nodiscard]] uint64_t column_count() const noexcept { return keys.size(); }

    [[nodiscard]] uint64_t group_count() const noexcept { return group_begin.size() - 1; }

    /// The memory that all members take.
    [[nodiscard]] uint64_t data_bytes() const noexcept;
};

/// A partition of the features.
struct FeatureGroups {
    uint32_t count = 1;
    std::function<uint32_t(uint64_t key)> of = [](uint64_t) { return 0U; };  ///< below count
};

/// The final order of the columns: group by group, sorted by key within each.
struct ColumnOrder {
    std::vector<uint64_t> keys;         ///< per column
    std::vector<uint64_t> group_begin;  ///< as FeatureMatrix::group_begin
    std::vector<uint32_t> column_of;    ///< per feature, as they were given
};

[[nodiscard]] ColumnOrder order_columns(std::vector<uint64_t>&& keys, const FeatureGroups& groups);

/// Turns rows into columns. It frees the examples chunk by chunk, so that the peak of memory
/// stays below two copies of the non-zeros.
[[nodiscard]] FeatureMatrix make_feature_matrix(Examples&& examples,
                                                const FeatureGroups& groups = {});

}  // namespace weir::data

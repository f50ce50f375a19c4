// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Schemas of tables with the rule `add`, for tests. What else a test needs, it sets by itself.

#include <string>
#include <utility>

#include "lib/store/table_schema.h"

namespace weir::testing {

/// Keys 0 to key_count - 1.
[[nodiscard]] inline TableSchema dense_table(std::string name, uint64_t key_count,
                                             ValueType type = ValueType::kFloat32,
                                             uint32_t width = 1) {
    return {.name = std::move(name),
            .layout = Layout::kDense,
            .value_type = type,
            .width = width,
            .key_count = key_count};
}

/// Any keys.
[[nodiscard]] inline TableSchema sparse_table(std::string name,
                                              ValueType type = ValueType::kFloat32,
                                              uint32_t width = 1) {
    return {.name = std::move(name), .layout = Layout::kSparse, .value_type = type, .width = width};
}

/// One of the two.
[[nodiscard]] inline TableSchema table_of(Layout layout, std::string name, uint64_t key_count,
                                          ValueType type = ValueType::kFloat32,
                                          uint32_t width = 1) {
    return layout == Layout::kDense ? dense_table(std::move(name), key_count, type, width)
                                    : sparse_table(std::move(name), type, width);
}

}  // namespace weir::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// next_rows: row numbers for KeyIndex::insert_missing(), as upsert() would give them.

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "lib/store/index/key_index.h"

namespace weir::testing {

inline std::vector<uint32_t> next_rows(const KeyIndex& index, size_t missing_count) {
    std::vector<uint32_t> rows(missing_count);
    std::iota(rows.begin(), rows.end(), static_cast<uint32_t>(index.next_row()));
    return rows;
}

}  // namespace weir::testing

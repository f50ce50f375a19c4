// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What is lost with servers of which there are no copies, as users of tables know it.

#include <cstddef>
#include <span>
#include <string>

#include "lib/key/position_set.h"
#include "lib/store/table_schema.h"

namespace weir {

/// More are counted, but not named: the text goes into errors.
inline constexpr size_t kLostRangesNamedMax = 4;  ///< of all tables together
inline constexpr size_t kLostTablesNamedMax = 3;

struct LostNamesMax {
    size_t ranges = kLostRangesNamedMax;
    size_t tables = kLostTablesNamedMax;
};

/// For a log.
inline constexpr LostNamesMax kAllLostNames{SIZE_MAX, SIZE_MAX};

/// "keys 0 to 7, 16 to 23, and 12 more ranges, of table 'weights'; keys of table 'sums'", for each dense
/// table that has keys at these positions, and as far as there is room for names: those first that lose
/// most keys. The keys of a sparse table lie anywhere: if there is one, or no table at all, the text has
/// the positions themselves.
[[nodiscard]] std::string lost_ranges(const PositionSet& lost, std::span<const TableSchema> tables,
                                      LostNamesMax names_max = {});

}  // namespace weir

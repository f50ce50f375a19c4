// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FunctionCall: a function, and what it is to run with at one shard.

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "lib/store/functions/function_entry.h"

namespace weir {

class TableShard;

/// As TableShard::call() has checked it.
struct FunctionCall {
    const FunctionEntry* function = nullptr;
    std::vector<double> numbers;  ///< all that it takes
    std::array<TableShard*, kFunctionTablesMax>
        with{};           ///< the other tables; null behind the last one
    uint32_t widest = 1;  ///< values of a row, of the table of these that has most
};

/// As it travels: how many numbers and keys there are, 8 bytes each; the numbers; the keys.
[[nodiscard]] std::vector<std::byte> encode_result(const FunctionResult& result);
/// Nothing if the bytes are not those of a result.
[[nodiscard]] std::optional<FunctionResult> decode_result(std::span<const std::byte> bytes);

}  // namespace weir

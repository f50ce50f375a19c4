// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Combine: how several pushes to a row become one.

#include <cstdint>

namespace weir {

/// How the pushes of several workers are combined before the rule sees them. kMean divides the sum by
/// the number of pushes to the row.
enum class Combine : uint8_t { kSum, kMax, kMin, kLast, kMean };

[[nodiscard]] constexpr const char* to_string(Combine combine) noexcept {
    switch (combine) {
        case Combine::kSum: return "sum";
        case Combine::kMax: return "greatest";
        case Combine::kMin: return "least";
        case Combine::kLast: return "last";
        case Combine::kMean: return "mean";
    }
    return "unknown";
}

}  // namespace weir

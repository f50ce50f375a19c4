// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Codecs: by which codecs a body was made. body.h has what each means.

#include <cstdint>

namespace weir {

/// Bits, as they travel.
enum Codec : uint16_t {
    kKept = 1,
    kFactors = 2,
    kZeros = 4,
    kIntegers = 8,
    kHalvesB = 16,  ///< floats that are bfloat16 to the bit
    kHalves = 32,   ///< floats that are float16 to the bit
    kTablesOwn = 64,
    kCompress = 128,
    kKeyDifferences = 256,
};

using Codecs = uint16_t;

inline constexpr Codecs kAllCodecs = 511;
/// Of which a body has one at most.
inline constexpr Codecs kValueCodecs = kIntegers | kHalvesB | kHalves | kTablesOwn;

/// Whether a body may have these together, whatever its rows are.
[[nodiscard]] constexpr bool are_codecs(Codecs codecs) noexcept {
    const unsigned of_values = codecs & kValueCodecs;
    return (codecs & ~kAllCodecs) == 0 && (of_values & (of_values - 1)) == 0 &&
           ((codecs & kFactors) == 0 || (codecs & kKept) == 0);
}

}  // namespace weir

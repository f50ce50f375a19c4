// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Sizes of memory.

#include <cstdint>

namespace weir {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;

/// The least multiple of `unit` that is not below `bytes`.
[[nodiscard]] constexpr uint64_t round_up(uint64_t bytes, uint64_t unit) noexcept {
    return (bytes + unit - 1) / unit * unit;
}

}  // namespace weir

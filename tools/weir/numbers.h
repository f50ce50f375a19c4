// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Checks for the numbers in flags. Each function here returns a check: a function that returns an
/// error for a wrong text, and "" for a correct one. CLI11's check() takes such functions, and
/// files that include this header need not compile CLI11.

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

namespace weir::tools {

using NumberCheck = std::function<std::string(const std::string&)>;

inline constexpr uint64_t kCountMax = std::numeric_limits<uint32_t>::max();
inline constexpr uint64_t kLongCountMax = std::numeric_limits<uint64_t>::max();

/// Whole numbers from `least` to `most`.
[[nodiscard]] NumberCheck count(uint64_t least, uint64_t most);

/// Finite numbers above `least`, or equal to it if it is included.
[[nodiscard]] NumberCheck number(double least, bool included);

/// Finite numbers from `least` to `most`.
[[nodiscard]] NumberCheck number_within(double least, double most);

}  // namespace weir::tools

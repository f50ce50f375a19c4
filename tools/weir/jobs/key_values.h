// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The keys that `weir get` is given, and their values as text and as JSON.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/wire/get_message.h"

namespace weir::tools {

inline constexpr size_t kGetKeysMax = 1000;
inline constexpr size_t kGetBytesMax = size_t{1} << 20;  ///< of values

/// The keys that the words name, in this order.
/// Errors: Errc::kInvalidArgument naming the word; or if they are more than kGetKeysMax
[[nodiscard]] Result<std::vector<uint64_t>> parse_keys(std::span<const std::string> words);

/// A line for each key.
///
/// found: of all `keys`
[[nodiscard]] std::string values_text(std::string_view table, std::span<const uint64_t> keys,
                                      const GetReply& found);
[[nodiscard]] std::string values_json(std::string_view table, std::span<const uint64_t> keys,
                                      const GetReply& found);

/// Keys that nobody has answered for.
[[nodiscard]] size_t unknown_count(const GetReply& found);

}  // namespace weir::tools

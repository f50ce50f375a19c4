// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Encodes what a worker must know of a rule that runs on servers alone, to travel in control messages.

#include <optional>
#include <string>
#include <string_view>

#include "lib/store/rules/rule_registry.h"

namespace weir {

[[nodiscard]] std::string encode_rule(const RuleEntry& rule);

/// An entry that is_described; nothing if the bytes are malformed.
[[nodiscard]] std::optional<RuleEntry> decode_rule(std::string_view bytes);

}  // namespace weir

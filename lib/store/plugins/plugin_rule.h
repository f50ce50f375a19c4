// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Rules that are C functions (weir_plugin.h), as tables use them.

#include <memory>

#include "lib/base/result.h"
#include "lib/store/plugins/weir_plugin.h"
#include "lib/store/rules/rule_registry.h"

namespace weir {

/// The entry keeps copies of the texts and arrays of `rule`, and `object`, which has its functions.
/// Errors: Errc::kInvalidArgument, saying what is wrong with the rule
[[nodiscard]] Result<RuleEntry> make_plugin_rule(const weir_rule& rule,
                                                 std::shared_ptr<void> object);

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What `weir info --plugin FILE` shows.

#include <span>
#include <string>

#include "lib/store/plugins/plugin.h"

namespace weir::tools {

/// `rules`: into which the plugins are loaded.
[[nodiscard]] std::string plugins_text(std::span<const Plugin> plugins, const RuleRegistry& rules);
[[nodiscard]] std::string plugins_json(std::span<const Plugin> plugins, const RuleRegistry& rules);

}  // namespace weir::tools

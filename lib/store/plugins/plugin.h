// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Plugins: shared objects with update rules and codecs (weir_plugin.h).

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/store/plugins/plugin_list.h"
#include "lib/store/rules/rule_registry.h"

namespace weir {

/// One that is loaded. It stays so as long as a registry has one of its rules.
struct Plugin {
    std::string path;
    PluginId is;
    std::vector<std::string> rules;      ///< their names, in the order in which it registers them
    std::vector<std::string> codecs;     ///< the same
    std::vector<std::string> functions;  ///< the same
};

/// Runs code of the file: `path` must come from whoever may start this program, never from a peer.
///
/// Errors: naming the file, what is wrong and what to do. Errc::kNotFound if it cannot be read; kInvalidArgument
///         if it is no plugin, or refuses, or a rule, function or codec of it cannot be registered: `rules` may have some of
///         them then, and is to be thrown away
[[nodiscard]] Result<Plugin> load_plugin(const std::string& path, RuleRegistry& rules);

/// All of them, in order. Errors: as well kInvalidArgument for too many, or two files of one name
[[nodiscard]] Result<std::vector<Plugin>> load_plugins(std::span<const std::string> paths,
                                                       RuleRegistry& rules);

/// Between the paths in WEIR_PLUGINS.
inline constexpr char kPluginSeparator = ':';
[[nodiscard]] std::vector<std::string> split_plugin_paths(std::string_view text);
[[nodiscard]] std::string join_plugin_paths(std::span<const std::string> paths);

}  // namespace weir

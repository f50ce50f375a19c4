// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// PluginList: what processes with servers tell each other of the plugins that they have loaded. All must have
/// the same ones.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

/// Of a plugin, by its name: other hosts may have it in another folder.
struct PluginId {
    static constexpr size_t kNameBytesMax = 96;
    std::string name;      ///< of the file, without its folder
    uint64_t content = 0;  ///< a hash of its bytes
    uint64_t rules = 0;    ///< a hash of what can be compared of its rules and codecs
    friend bool operator==(const PluginId&, const PluginId&) = default;
};

struct PluginList {
    static constexpr size_t kCountMax = 16;
    static constexpr size_t kBytesMax = 4 + kCountMax * (PluginId::kNameBytesMax + 20);
    std::vector<PluginId> plugins;

    [[nodiscard]] std::string encode() const;
    [[nodiscard]] static std::optional<PluginList> decode(std::string_view bytes);

    /// The first difference, for people: which file a process lacks, or what else is not the same. Empty: there
    /// is none. `own`, `others`: "rank 2 (node7)"
    [[nodiscard]] std::string difference(std::string_view own, const PluginList& other,
                                         std::string_view others) const;
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "lib/store/plugins/plugin_list.h"

#include <algorithm>
#include <span>

#include <fmt/core.h>

#include "lib/base/byte_codec.h"
#include "lib/base/printable.h"

namespace weir {
namespace {

const PluginId* find_plugin(const PluginList& list, std::string_view name) {
    const auto at = std::ranges::find(list.plugins, name, &PluginId::name);
    return at == list.plugins.end() ? nullptr : &*at;
}

}  // namespace

std::string PluginList::encode() const {
    ByteWriter writer;
    writer.number(static_cast<uint32_t>(plugins.size()));
    for (const PluginId& one : plugins)
        writer.text(one.name).number(one.content).number(one.rules);
    const std::span<const std::byte> bytes = writer.bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::optional<PluginList> PluginList::decode(std::string_view bytes) {
    ByteReader reader(std::as_bytes(std::span(bytes)));
    PluginList list;
    const auto count = reader.number<uint32_t>();
    if (count > kCountMax) return std::nullopt;
    for (uint32_t i = 0; i < count && reader.ok(); ++i) {
        PluginId& one = list.plugins.emplace_back();
        one.name = reader.text(PluginId::kNameBytesMax);
        one.content = reader.number<uint64_t>();
        one.rules = reader.number<uint64_t>();
        if (!is_printable_name(one.name)) return std::nullopt;
    }
    if (!reader.done()) return std::nullopt;
    return list;
}

std::string PluginList::difference(std::string_view own, const PluginList& other,
                                   std::string_view others) const {
    for (const PluginId& theirs : other.plugins) {
        const PluginId* const ours = find_plugin(*this, theirs.name);
        if (ours == nullptr) {
            return fmt::format(
                "{} lacks the plugin {}, which {} has loaded: name the same files "
                "in `plugins` (WEIR_PLUGINS) of all processes with servers",
                own, theirs.name, others);
        }
        if (ours->content != theirs.content) {
            return fmt::format(
                "the plugin {} of {} is another file than that of {}: their bytes "
                "have the hashes {:016x} and {:016x}; put the same file everywhere",
                theirs.name, own, others, ours->content, theirs.content);
        }
        if (ours->rules != theirs.rules) {
            return fmt::format(
                "the plugin {} is the same file for {} and {}, and registers other "
                "rules: what it registers must not depend on the host, or on which "
                "rules are there",
                theirs.name, own, others);
        }
    }
    for (const PluginId& ours : plugins) {
        if (find_plugin(other, ours.name) == nullptr) return other.difference(others, *this, own);
    }
    return {};
}

}  // namespace weir

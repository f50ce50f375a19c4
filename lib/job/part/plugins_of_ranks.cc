// SPDX-License-Identifier: Apache-2.0
#include "lib/job/part/plugins_of_ranks.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "lib/bootstrap/rendezvous/rendezvous.h"

namespace weir {
namespace {

constexpr std::string_view kPluginsKey = "weir-plugins";
constexpr size_t kHostBytesMax = 256;
static_assert(PluginList::kBytesMax + kHostBytesMax + 1 <= Bootstrap::kValueBytesMax);

struct PluginsOfRank {
    std::string who;  ///< for people
    PluginList list;
};

/// The name of the host, a 0, and the list.
Result<PluginsOfRank> plugins_of(Bootstrap& bootstrap, uint32_t rank) {
    WEIR_ASSIGN(const std::string text, bootstrap.get(rank, kPluginsKey));
    const size_t end = text.find('\0');
    auto list = end == std::string::npos
                    ? std::nullopt
                    : PluginList::decode(std::string_view(text).substr(end + 1));
    if (!list) {
        return Error(Errc::kProtocol, fmt::format("rank {} does not say which plugins it has; use "
                                                  "the same version of Weir on all ranks",
                                                  rank));
    }
    return PluginsOfRank{fmt::format("rank {} ({})", rank, text.substr(0, end)), *std::move(list)};
}

}  // namespace

Status publish_plugins(Bootstrap& bootstrap, const PluginList& plugins) {
    const std::string host(boot::host_name(boot::this_host_id()));
    return bootstrap.put(kPluginsKey, host.substr(0, kHostBytesMax) + '\0' + plugins.encode());
}

Status compare_plugins(Bootstrap& bootstrap, std::span<const uint32_t> server_ranks) {
    std::optional<PluginsOfRank> first;
    for (const uint32_t rank : server_ranks) {
        Result<PluginsOfRank> its = plugins_of(bootstrap, rank);
        // It takes itself for no server: the ranks find out later that they differ in that.
        if (its.code() == Errc::kNotFound) continue;
        if (!its) return its.error();
        if (!first) {
            first = *std::move(its);
            continue;
        }
        const std::string how = its->list.difference(its->who, first->list, first->who);
        if (how.empty()) continue;
        return Error(Errc::kInvalidArgument, fmt::format("{}; so the job does not begin", how));
    }
    return {};
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "lib/job/host_spread.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "lib/base/counted.h"
#include "lib/bootstrap/rendezvous/rendezvous.h"

namespace weir {
namespace {

/// Of those on it.
struct HostWithManagers {
    std::string_view host;
    std::vector<uint32_t> ranks;
};

HostWithManagers host_with_most(std::span<const std::string> hosts,
                                std::span<const uint32_t> manager_ranks) {
    std::map<std::string_view, std::vector<uint32_t>> on;
    for (const uint32_t rank : manager_ranks)
        on[hosts[rank]].push_back(rank);
    const auto most =
        std::ranges::max_element(on, {}, [](const auto& entry) { return entry.second.size(); });
    return {most->first, most->second};
}

size_t count_hosts(std::span<const std::string> hosts) {
    return std::set<std::string_view>(hosts.begin(), hosts.end()).size();
}

std::string advice(uint32_t server_count, size_t hosts) {
    return fmt::format(
        "spread the servers, which are the first {} ranks, over at least {} hosts (srun "
        "--distribution=cyclic, mpirun --map-by node; by hand, give each host a rank in turn)",
        server_count, hosts);
}

std::string list_text(std::span<const uint32_t> ranks) {
    std::string text;
    for (const uint32_t rank : ranks)
        text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
    return text;
}

}  // namespace

std::vector<uint32_t> choose_manager_ranks(std::span<const std::string> server_hosts,
                                           uint32_t count) {
    std::map<std::string_view, uint32_t> on_host;
    std::vector<std::pair<uint32_t, uint32_t>> order;  // how many are on its host before it, rank
    for (uint32_t rank = 0; rank < server_hosts.size(); ++rank)
        order.emplace_back(on_host[server_hosts[rank]]++, rank);
    std::ranges::sort(order);
    order.resize(std::min<size_t>(order.size(), count));
    std::vector<uint32_t> ranks;
    ranks.reserve(order.size());
    for (const auto& [before, rank] : order)
        ranks.push_back(rank);
    std::ranges::sort(ranks);
    return ranks;
}

std::vector<std::string> spread_warnings(std::span<const std::string> hosts, uint32_t server_count,
                                         std::span<const uint32_t> manager_ranks,
                                         uint32_t replicas) {
    std::vector<std::string> warnings;
    const size_t host_count = count_hosts(hosts);
    if (host_count < 2) return warnings;
    const size_t managers = manager_ranks.size();
    const HostWithManagers most = host_with_most(hosts, manager_ranks);
    if (managers > 1 && most.ranks.size() > managers / 2) {
        warnings.push_back(fmt::format(
            "`managers` {}: {} of them (ranks {}) are on one host, {}, and most must live: the job "
            "ends if that host is lost; {}",
            managers, most.ranks.size(), list_text(most.ranks), boot::host_name(most.host),
            advice(server_count, 3)));
    }
    const size_t server_hosts = count_hosts(hosts.first(server_count));
    if (server_hosts < size_t{replicas} + 1 && server_hosts < host_count) {
        warnings.push_back(fmt::format(
            "`replicas` {}: all servers are on {}, so copies of the same parameters share a host, "
            "and are lost with it; {}",
            replicas, counted(server_hosts, "host"), advice(server_count, size_t{replicas} + 1)));
    }
    return warnings;
}

}  // namespace weir

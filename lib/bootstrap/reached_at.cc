// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/reached_at.h"

#include <algorithm>
#include <string>
#include <vector>

#include "transport/address_parts.h"
#include "transport/net/own_address.h"

namespace weir {

using transport::InterfaceAddress;
using transport::SocketAddress;

namespace {

constexpr std::string_view kAddressesKey = "weir-addresses";
constexpr size_t kAddressesMax = 32;  // of a host; further ones are left out

/// That of the default route first.
std::string text_of_own() {
    std::string text = transport::own_address().host();
    size_t count = 1;
    for (const InterfaceAddress& one : transport::interface_addresses()) {
        if (one.leads_out && ++count <= kAddressesMax) text += ";" + one.address.host();
    }
    return text;
}

/// Those of another host which this one has not, too; none: it is this host, or none was published.
std::vector<SocketAddress> only_theirs(std::string_view text,
                                       const std::vector<InterfaceAddress>& own) {
    std::vector<SocketAddress> theirs;
    while (!text.empty()) {
        const auto address = SocketAddress::parse_host(transport::take_part(text), 0);
        if (!address || address->is_loopback()) continue;
        const bool is_ours = std::ranges::any_of(
            own, [&](const InterfaceAddress& one) { return one.address.same_host(*address); });
        if (!is_ours) theirs.push_back(*address);
    }
    return theirs;
}

}  // namespace

Status publish_addresses(Bootstrap& bootstrap) {
    return bootstrap.size() == 1 ? Status() : bootstrap.put(kAddressesKey, text_of_own());
}

Result<SocketAddress> address_for_others(Bootstrap& bootstrap) {
    if (const SocketAddress met_at = bootstrap.met_at(); met_at.family() != 0) return met_at;
    const std::vector<InterfaceAddress> own = transport::interface_addresses();
    for (uint32_t rank = 0; rank < bootstrap.size(); ++rank) {
        if (rank == bootstrap.rank()) continue;
        WEIR_ASSIGN(const std::string text, bootstrap.get(rank, kAddressesKey));
        const std::vector<SocketAddress> theirs = only_theirs(text, own);
        const SocketAddress found = transport::own_address_for(own, theirs);
        if (found.family() != 0) return found;
    }
    return SocketAddress();
}

SocketAddress address_towards(std::string_view endpoint) {
    for (const std::string_view scheme : {"tcp:", "verbs:"}) {
        const std::string_view part = transport::part_of_scheme(endpoint, scheme);
        if (!part.starts_with(scheme)) continue;
        const auto address = SocketAddress::parse(part.substr(scheme.size()));
        if (!address) continue;
        const SocketAddress own = transport::own_address_towards(*address);
        return own.is_loopback() ? SocketAddress() : own;
    }
    return {};
}

}  // namespace weir

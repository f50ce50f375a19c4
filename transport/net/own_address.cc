// SPDX-License-Identifier: Apache-2.0
#include "transport/net/own_address.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>

#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>

#include "lib/base/descriptor.h"

namespace weir::transport {

namespace {

bool is_in_network(const SocketAddress& address, const SocketAddress& network, uint32_t bits) {
    if (address.family() != network.family()) return false;
    const std::span<const uint8_t> one = address.bytes();
    const std::span<const uint8_t> other = network.bytes();
    const size_t whole = bits / 8;
    if (!std::ranges::equal(one.first(whole), other.first(whole))) return false;
    return bits % 8 == 0 || (one[whole] ^ other[whole]) >> (8 - bits % 8) == 0;
}

bool has(std::span<const InterfaceAddress> own, const SocketAddress& address) {
    return std::ranges::any_of(
        own, [&](const InterfaceAddress& one) { return one.address.same_host(address); });
}

/// "10.1.0.5 (eth0), 172.17.0.1 (docker0)"
std::string list_of(std::span<const InterfaceAddress> own) {
    std::string text;
    for (const InterfaceAddress& one : own) {
        text +=
            fmt::format("{}{} ({})", text.empty() ? "" : ", ", one.address.host(), one.interface);
    }
    return text;
}

Error not_ours(std::string_view what, const std::string& why,
               std::span<const InterfaceAddress> own) {
    return {Errc::kInvalidArgument,
            fmt::format("'{}', {}: set it to an address of this machine, the name of an interface, "
                        "or a network such as 10.1.0.0/16, or unset it; this machine has {}",
                        what.substr(0, 80), why, list_of(own))};
}

/// The first of a kind; IPv4 before IPv6.
template <typename IsOne>
std::optional<SocketAddress> first_of(std::span<const InterfaceAddress> own, const IsOne& is_one) {
    for (const int family : {AF_INET, AF_INET6}) {
        for (const InterfaceAddress& one : own) {
            if (one.address.family() == family && is_one(one)) return one.address;
        }
    }
    return std::nullopt;
}

Result<SocketAddress> find_in_network(std::string_view what, size_t slash) {
    const std::vector<InterfaceAddress> own = interface_addresses();
    const std::string_view digits = what.substr(slash + 1);
    const Result<SocketAddress> network = SocketAddress::parse_host(what.substr(0, slash), 0);
    uint32_t bits = 0;
    const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
    const bool is_number = fault == std::errc() && end == digits.data() + digits.size();
    if (!network || !is_number || bits > 8 * network->bytes().size())
        return not_ours(what, "which is not a network", own);
    const auto found = first_of(own, [&](const InterfaceAddress& one) {
        return is_in_network(one.address, *network, bits);
    });
    if (found) return *found;
    return not_ours(what, "a network in which this machine has no address", own);
}

}  // namespace

std::vector<InterfaceAddress> interface_addresses() {
    ifaddrs* list = nullptr;
    if (::getifaddrs(&list) != 0) return {};
    std::vector<InterfaceAddress> found;
    for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
        if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
        if (one->ifa_addr->sa_family != AF_INET && one->ifa_addr->sa_family != AF_INET6) continue;
        InterfaceAddress entry;
        entry.interface = one->ifa_name;
        entry.address = SocketAddress::from(one->ifa_addr);
        entry.address.set_port(0);
        if (entry.address.is_link_local()) continue;
        if (one->ifa_netmask != nullptr) {
            // The kernel leaves the family of some masks unset.
            sockaddr_storage mask{};
            std::copy_n(reinterpret_cast<const std::byte*>(one->ifa_netmask),
                        entry.address.raw_bytes(), reinterpret_cast<std::byte*>(&mask));
            mask.ss_family = static_cast<sa_family_t>(entry.address.family());
            const auto bits = SocketAddress::from(reinterpret_cast<const sockaddr*>(&mask));
            for (const uint8_t byte : bits.bytes())
                entry.network_bits += static_cast<uint32_t>(std::popcount(byte));
        }
        entry.leads_out = (one->ifa_flags & IFF_LOOPBACK) == 0 &&
                          (one->ifa_flags & IFF_RUNNING) != 0 && !entry.address.is_loopback();
        found.push_back(std::move(entry));
    }
    ::freeifaddrs(list);
    return found;
}

/// Connecting a datagram socket sends nothing.
SocketAddress own_address_towards(const SocketAddress& peer) {
    SocketAddress to = peer;
    if (to.port() == 0) to.set_port(9);
    const Descriptor socket(::socket(to.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket || ::connect(socket.get(), to.raw(), to.raw_bytes()) != 0) return {};
    SocketAddress own = SocketAddress::own(socket.get());
    own.set_port(0);
    return own.is_any() || own.is_link_local() ? SocketAddress{} : own;
}

SocketAddress own_address() {
    for (const char* const somewhere : {"192.0.2.1", "2001:db8::1"}) {
        const SocketAddress own =
            own_address_towards(SocketAddress::parse_host(somewhere, 0).value());
        if (own.family() != 0) return own;
    }
    const auto is_outside = [](const InterfaceAddress& one) { return one.leads_out; };
    if (const auto first = first_of(interface_addresses(), is_outside)) return *first;
    return SocketAddress::parse_host("127.0.0.1", 0).value();
}

SocketAddress own_address_for(std::span<const InterfaceAddress> own,
                              std::span<const SocketAddress> theirs) {
    for (const SocketAddress& their : theirs) {
        if (has(own, their)) continue;
        for (const InterfaceAddress& one : own) {
            if (one.leads_out && is_in_network(their, one.address, one.network_bits))
                return one.address;
        }
    }
    for (const SocketAddress& their : theirs) {
        if (has(own, their)) continue;
        const SocketAddress found = own_address_towards(their);
        if (found.family() != 0 && !found.is_loopback()) return found;
    }
    return {};
}

Result<SocketAddress> find_own_address(std::string_view what) {
    if (const size_t slash = what.find('/'); slash != std::string_view::npos)
        return find_in_network(what, slash);
    if (Result<SocketAddress> address = SocketAddress::parse_host(what, 0)) return address;
    const std::vector<InterfaceAddress> own = interface_addresses();
    const auto found =
        first_of(own, [&](const InterfaceAddress& one) { return one.interface == what; });
    if (found) return *found;
    return not_ours(what, "which is not an address, and no interface with one that is up", own);
}

}  // namespace weir::transport

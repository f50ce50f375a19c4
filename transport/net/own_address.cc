// SPDX-License-Identifier: Apache-2.0
#include "transport/net/own_address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>

#include "lib/base/descriptor.h"

namespace weir::transport {

namespace {

/// The source address of packets to an address of the Internet, or the unset address. Connecting
/// a datagram socket sends nothing.
SocketAddress of_default_route(const char* somewhere) {
    const auto to = SocketAddress::parse_host(somewhere, 9);
    if (!to) return {};
    const Descriptor socket(::socket(to->family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket || ::connect(socket.get(), to->raw(), to->raw_bytes()) != 0) return {};
    SocketAddress own = SocketAddress::own(socket.get());
    own.set_port(0);
    return own.is_any() ? SocketAddress{} : own;
}

bool is_link_local(const sockaddr* address) {
    if (address->sa_family != AF_INET6) return false;
    const auto* const ip = reinterpret_cast<const sockaddr_in6*>(address);
    return IN6_IS_ADDR_LINKLOCAL(&ip->sin6_addr) != 0;
}

SocketAddress of_first_interface() {
    ifaddrs* list = nullptr;
    if (::getifaddrs(&list) != 0) return {};
    SocketAddress found;
    for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
        const bool usable = one->ifa_addr != nullptr && (one->ifa_flags & IFF_UP) != 0 &&
                            (one->ifa_flags & IFF_LOOPBACK) == 0;
        if (!usable || is_link_local(one->ifa_addr)) continue;
        const int family = one->ifa_addr->sa_family;
        if (family == AF_INET || (family == AF_INET6 && found.family() == 0)) {
            found = SocketAddress::from(one->ifa_addr);
            found.set_port(0);
        }
        if (family == AF_INET) break;
    }
    ::freeifaddrs(list);
    return found;
}

}  // namespace

SocketAddress own_address() {
    for (const char* const somewhere : {"192.0.2.1", "2001:db8::1"}) {
        if (const SocketAddress own = of_default_route(somewhere); own.family() != 0) return own;
    }
    if (const SocketAddress own = of_first_interface(); own.family() != 0) return own;
    return SocketAddress::parse_host("127.0.0.1", 0).value();
}

}  // namespace weir::transport

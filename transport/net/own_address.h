// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The addresses of this machine, and which of them other hosts reach.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "transport/net/socket_address.h"

namespace weir::transport {

/// The end of an error about a peer that was never reached.
inline constexpr std::string_view kBindAdvice =
    "if hosts have several networks, set WEIR_BIND on all of them to the one by which they reach "
    "each other, such as 10.1.0.0/16 or eth0";

/// An address that an interface has which is up. Port 0.
struct InterfaceAddress {
    std::string interface;
    SocketAddress address;
    uint32_t network_bits = 0;  ///< how many bits all addresses of its network begin with
    bool leads_out = false;     ///< not loopback, and the interface has a carrier
};

/// Without IPv6 addresses of fe80::/10, which mean nothing without an interface.
[[nodiscard]] std::vector<InterfaceAddress> interface_addresses();

/// The address that packets of the default route have; without such a route that of the first
/// network interface that is up; the loopback address if there is none. Port 0.
[[nodiscard]] SocketAddress own_address();

/// The address that packets to `peer` have. The unset address if no route leads there. Port 0.
[[nodiscard]] SocketAddress own_address_towards(const SocketAddress& peer);

/// At which of `own` a host that has the addresses `theirs` reaches this one: that of a network
/// that both have, else that of a route to an address of theirs. What both have leads neither
/// to the other (bridges of containers, for example). The unset address if there is none.
[[nodiscard]] SocketAddress own_address_for(std::span<const InterfaceAddress> own,
                                            std::span<const SocketAddress> theirs);

/// What a person may give instead of an address of this machine: `what` is an address, the name of
/// an interface, or a network such as 10.1.0.0/16, in which this machine has an address. Port 0.
/// Errors: kInvalidArgument; the text goes on behind the name of a setting
[[nodiscard]] Result<SocketAddress> find_own_address(std::string_view what);

}  // namespace weir::transport

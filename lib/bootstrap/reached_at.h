// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which of a host's addresses a rank gives to the others. That of the default route may lead
/// elsewhere: to the Internet, or to bridges of containers, which have the same address on every
/// host.

#include <string_view>

#include "lib/base/result.h"
#include "lib/bootstrap/bootstrap.h"
#include "transport/net/socket_address.h"

namespace weir {

/// Before an exchange: tells the others the addresses of this host.
[[nodiscard]] Status publish_addresses(Bootstrap& bootstrap);

/// After it: the address on the way by which the ranks met, or else the one that the first rank of
/// another host can reach by what it has published. Unset: there is no such rank.
/// Errors: those of the bootstrap
[[nodiscard]] Result<transport::SocketAddress> address_for_others(Bootstrap& bootstrap);

/// The address on the way to the endpoint of another process. Unset: not known.
[[nodiscard]] transport::SocketAddress address_towards(std::string_view endpoint);

}  // namespace weir

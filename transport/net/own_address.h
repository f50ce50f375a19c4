// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Finds an address of this machine at which other hosts reach it.

#include "transport/net/socket_address.h"

namespace weir::transport {

/// The address that packets of the default route have; without such a route that of the first
/// network interface that is up; the loopback address if there is none. Port 0.
[[nodiscard]] SocketAddress own_address();

}  // namespace weir::transport

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Names of hosts.

#include <vector>

#include "lib/base/host_port.h"
#include "lib/base/result.h"
#include "transport/net/socket_address.h"

namespace weir::transport {

/// The addresses that a host's name stands for, with its port; at least one. Blocks while the
/// system looks it up.
/// Errors: kNotFound
[[nodiscard]] Result<std::vector<SocketAddress>> resolve(const HostPort& name);

}  // namespace weir::transport

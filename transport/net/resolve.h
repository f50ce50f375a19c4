// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Resolves host names.

#include <vector>

#include "lib/base/host_port.h"
#include "lib/base/result.h"
#include "transport/net/socket_address.h"

namespace weir::transport {

/// The addresses of a host, with the port of `name`; at least one. Blocks while the system looks
/// the host up.
/// Errors:  kNotFound
[[nodiscard]] Result<std::vector<SocketAddress>> resolve(const HostPort& name);

}  // namespace weir::transport

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// TCP sockets of the rendezvous, addressed by the name of rank 0's host; their errors say what
/// to do.

#include <string>

#include "lib/base/clock.h"
#include "lib/base/descriptor.h"
#include "lib/base/host_port.h"
#include "lib/base/result.h"
#include "transport/net/socket.h"

namespace weir::boot {

/// A connection whose host answers nothing for so long is closed.
inline constexpr uint32_t kSilenceMsMax = 60'000;

/// Listens on the address that the host's name resolves to, not on all addresses.
/// Errors:  kAlreadyExists if the port is in use; kNotFound if the host is not this machine or
/// unknown
[[nodiscard]] Result<Descriptor> tcp_listen(const HostPort& at);

/// The port that a listening socket got.
[[nodiscard]] uint16_t tcp_port(const Descriptor& listener) noexcept;

/// Tries once to connect, until the deadline.
[[nodiscard]] Result<transport::Socket> tcp_connect(const HostPort& to, const Clock& clock,
                                                    uint64_t deadline_ns);

/// Whether the host's name resolves to loopback addresses only, which other hosts cannot reach.
[[nodiscard]] bool is_loopback(const std::string& host);

}  // namespace weir::boot

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// TCP sockets of the rendezvous, addressed by the name of rank 0's host; their errors say what
/// to do.

#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/descriptor.h"
#include "lib/base/host_port.h"
#include "lib/base/result.h"
#include "transport/net/socket.h"

namespace weir::boot {

/// A connection whose host answers nothing for so long is closed.
inline constexpr uint32_t kSilenceMsMax = 60'000;

/// Listens on the addresses of this machine that the host's name resolves to. Only if these are
/// loopback addresses, though the name is not that of the loopback interface, it listens on all
/// addresses: Debian's /etc/hosts gives a host's own name the address 127.0.1.1, which the other
/// hosts do not mean by it.
/// Errors:  kAlreadyExists if the port is in use; kNotFound if the host is not this machine or
/// unknown
[[nodiscard]] Result<std::vector<Descriptor>> tcp_listen(const HostPort& at);

/// The port that a listening socket got.
[[nodiscard]] uint16_t tcp_port(const Descriptor& listener) noexcept;

/// Tries once to connect, until the deadline: to each address that the name resolves to, beginning
/// with one after the other, without waiting until one has failed.
[[nodiscard]] Result<transport::Socket> tcp_connect(const HostPort& to, const Clock& clock,
                                                    uint64_t deadline_ns);

/// Whether the host's name means the loopback interface, which other hosts cannot reach.
[[nodiscard]] bool is_loopback(const std::string& host);

}  // namespace weir::boot

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How the ranks of a rendezvous reach each other: by the name of rank 0's host, with errors that
/// say what to do about it.

#include <string>

#include "lib/base/clock.h"
#include "lib/base/descriptor.h"
#include "lib/base/host_port.h"
#include "lib/base/result.h"
#include "transport/net/socket.h"

namespace weir::boot {

/// After so long a host that says nothing at all is taken for gone.
inline constexpr uint32_t kSilenceMsMax = 60'000;

/// Listens on the address that the host's name stands for, not on all addresses.
/// Errors:  kAlreadyExists if the port is in use; kNotFound if the host is not this machine or
/// unknown
[[nodiscard]] Result<Descriptor> tcp_listen(const HostPort& at);

/// The port that a listening socket got.
[[nodiscard]] uint16_t tcp_port(const Descriptor& listener) noexcept;

/// One attempt to connect, ended by the deadline.
[[nodiscard]] Result<transport::Socket> tcp_connect(const HostPort& to, const Clock& clock,
                                                    uint64_t deadline_ns);

/// Whether the host's name stands for this machine's loopback interface only.
[[nodiscard]] bool is_loopback(const std::string& host);

}  // namespace weir::boot

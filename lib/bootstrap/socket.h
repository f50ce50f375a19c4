// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The few TCP calls that the rendezvous needs, non-blocking, with errors for people.

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/descriptor.h"
#include "lib/base/result.h"

namespace weir::boot {

/// Where rank 0 waits: "node7:4000", "10.0.0.1:4000", "[::1]:4000".
struct HostPort {
    std::string host;
    uint16_t port = 0;

    /// Errors:  kInvalidArgument naming the text and what it must look like
    [[nodiscard]] static Result<HostPort> parse(std::string_view text);
    [[nodiscard]] std::string text() const;
};

/// Listens on the address that the host's name stands for, not on all addresses.
/// Errors:  kAlreadyExists if the port is in use; kNotFound if the host is not this machine or
/// unknown
[[nodiscard]] Result<Descriptor> tcp_listen(const HostPort& at);

/// The port that a listening socket got.
[[nodiscard]] uint16_t tcp_port(const Descriptor& listener) noexcept;

/// One attempt to connect, ended by the deadline.
[[nodiscard]] Result<Descriptor> tcp_connect(const HostPort& to, const Clock& clock,
                                             uint64_t deadline_ns);

/// "10.0.0.7:4711", for messages.
[[nodiscard]] std::string tcp_peer_name(int fd);

/// Whether the host's name stands for this machine's loopback interface only.
[[nodiscard]] bool is_loopback(const std::string& host);

}  // namespace weir::boot

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SocketAddress: an IP address and port, and its text ("10.0.0.1:4711", "[::1]:4711").

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <netinet/in.h>

#include "lib/base/result.h"

namespace weir::transport {

class SocketAddress {
public:
    SocketAddress() = default;

    /// An IP address without a port: "10.0.0.1", "::1".
    /// Errors: kInvalidArgument
    [[nodiscard]] static Result<SocketAddress> parse_host(std::string_view text, uint16_t port);
    /// An IP address and its port, not a name. Errors: kInvalidArgument
    [[nodiscard]] static Result<SocketAddress> parse(std::string_view text);
    /// `address` as the kernel gave it, of either family.
    [[nodiscard]] static SocketAddress from(const sockaddr* address);
    /// The address of an open socket or of its peer; the unset address if there is none. An IPv4
    /// address is one also where the socket is of IPv6 and takes both.
    [[nodiscard]] static SocketAddress own(int fd);
    [[nodiscard]] static SocketAddress peer(int fd);

    [[nodiscard]] const sockaddr* raw() const noexcept {
        return reinterpret_cast<const sockaddr*>(&storage_);
    }

    [[nodiscard]] socklen_t raw_bytes() const noexcept {
        return family() == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    }

    [[nodiscard]] int family() const noexcept { return storage_.ss_family; }

    [[nodiscard]] uint16_t port() const noexcept;
    void set_port(uint16_t port) noexcept;
    /// True for 0.0.0.0 and ::, on which a socket can listen but to which it cannot connect.
    [[nodiscard]] bool is_any() const noexcept;
    /// True for 127.0.0.0/8 and ::1, which only this machine reaches.
    [[nodiscard]] bool is_loopback() const noexcept;
    /// True for fe80::/10, which means nothing without an interface.
    [[nodiscard]] bool is_link_local() const noexcept;
    /// Whether the IP addresses are the same, whatever the ports are.
    [[nodiscard]] bool same_host(const SocketAddress& other) const noexcept;
    /// The 4 or 16 bytes of the IP address.
    [[nodiscard]] std::span<const uint8_t> bytes() const noexcept;
    [[nodiscard]] std::string host() const;
    [[nodiscard]] std::string text() const;

private:
    void unmap() noexcept;

    sockaddr_storage storage_{};
};

}  // namespace weir::transport

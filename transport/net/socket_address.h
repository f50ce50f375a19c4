// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SocketAddress: an IP address and port, and its text ("10.0.0.1:4711", "[::1]:4711").

#include <cstdint>
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
    /// An address and its port, no name. Errors: kInvalidArgument
    [[nodiscard]] static Result<SocketAddress> parse(std::string_view text);
    /// `address` as the kernel gave it, of either family.
    [[nodiscard]] static SocketAddress from(const sockaddr* address);
    /// Of an open socket; the unset address if it has none.
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
    /// 0.0.0.0 or ::, where one can listen but not connect to.
    [[nodiscard]] bool is_any() const noexcept;
    /// Of this machine only: 127.0.0.0/8 or ::1.
    [[nodiscard]] bool is_loopback() const noexcept;
    [[nodiscard]] std::string host() const;
    [[nodiscard]] std::string text() const;

private:
    sockaddr_storage storage_{};
};

}  // namespace weir::transport

// SPDX-License-Identifier: Apache-2.0
#include "transport/net/socket_address.h"

#include <algorithm>
#include <cstring>

#include <arpa/inet.h>
#include <fmt/core.h>

#include "lib/base/host_port.h"

namespace weir::transport {

namespace {

Error not_an_address(std::string_view text) {
    return {Errc::kInvalidArgument, fmt::format("'{}' is not an IP address", text.substr(0, 80))};
}

const sockaddr_in& as_v4(const sockaddr_storage& storage) {
    return reinterpret_cast<const sockaddr_in&>(storage);
}

const sockaddr_in6& as_v6(const sockaddr_storage& storage) {
    return reinterpret_cast<const sockaddr_in6&>(storage);
}

}  // namespace

Result<SocketAddress> SocketAddress::parse_host(std::string_view text, uint16_t port) {
    SocketAddress address;
    if (text.size() >= INET6_ADDRSTRLEN || text.find('\0') != std::string_view::npos) {
        return not_an_address(text);
    }
    const std::string host(text);
    in_addr v4{};
    in6_addr v6{};
    if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) {
        auto& out = reinterpret_cast<sockaddr_in&>(address.storage_);
        out.sin_family = AF_INET;
        out.sin_addr = v4;
    } else if (::inet_pton(AF_INET6, host.c_str(), &v6) == 1) {
        auto& out = reinterpret_cast<sockaddr_in6&>(address.storage_);
        out.sin6_family = AF_INET6;
        out.sin6_addr = v6;
    } else {
        return not_an_address(text);
    }
    address.set_port(port);
    return address;
}

Result<SocketAddress> SocketAddress::parse(std::string_view text) {
    WEIR_ASSIGN(const HostPort parts, HostPort::parse(text));
    return parse_host(parts.host, parts.port);
}

SocketAddress SocketAddress::from(const sockaddr* address) {
    SocketAddress made;
    const bool v6 = address->sa_family == AF_INET6;
    std::memcpy(&made.storage_, address, v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    return made;
}

SocketAddress SocketAddress::own(int fd) {
    SocketAddress address;
    socklen_t bytes = sizeof(address.storage_);
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage_), &bytes) != 0) return {};
    address.unmap();
    return address;
}

SocketAddress SocketAddress::peer(int fd) {
    SocketAddress address;
    socklen_t bytes = sizeof(address.storage_);
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address.storage_), &bytes) != 0) return {};
    address.unmap();
    return address;
}

void SocketAddress::unmap() noexcept {
    if (family() != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&as_v6(storage_).sin6_addr)) return;
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = as_v6(storage_).sin6_port;
    std::memcpy(&v4.sin_addr, bytes().last(sizeof(v4.sin_addr)).data(), sizeof(v4.sin_addr));
    storage_ = {};
    std::memcpy(&storage_, &v4, sizeof(v4));
}

uint16_t SocketAddress::port() const noexcept {
    return ntohs(family() == AF_INET6 ? as_v6(storage_).sin6_port : as_v4(storage_).sin_port);
}

void SocketAddress::set_port(uint16_t port) noexcept {
    if (family() == AF_INET6) {
        reinterpret_cast<sockaddr_in6&>(storage_).sin6_port = htons(port);
    } else {
        reinterpret_cast<sockaddr_in&>(storage_).sin_port = htons(port);
    }
}

bool SocketAddress::is_any() const noexcept {
    if (family() != AF_INET6) return as_v4(storage_).sin_addr.s_addr == INADDR_ANY;
    return IN6_IS_ADDR_UNSPECIFIED(&as_v6(storage_).sin6_addr);
}

bool SocketAddress::is_loopback() const noexcept {
    if (family() != AF_INET6) return ntohl(as_v4(storage_).sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&as_v6(storage_).sin6_addr);
}

bool SocketAddress::is_link_local() const noexcept {
    return family() == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&as_v6(storage_).sin6_addr);
}

bool SocketAddress::same_host(const SocketAddress& other) const noexcept {
    return family() == other.family() && std::ranges::equal(bytes(), other.bytes());
}

std::span<const uint8_t> SocketAddress::bytes() const noexcept {
    if (family() == AF_INET6) return as_v6(storage_).sin6_addr.s6_addr;
    const auto* const v4 = reinterpret_cast<const uint8_t*>(&as_v4(storage_).sin_addr);
    return {v4, sizeof(in_addr)};
}

std::string SocketAddress::host() const {
    char text[INET6_ADDRSTRLEN] = {};
    const void* const address = family() == AF_INET6
                                    ? static_cast<const void*>(&as_v6(storage_).sin6_addr)
                                    : static_cast<const void*>(&as_v4(storage_).sin_addr);
    if (::inet_ntop(family(), address, text, sizeof(text)) == nullptr) return "an unknown address";
    return text;
}

std::string SocketAddress::text() const {
    return fmt::format(fmt::runtime(family() == AF_INET6 ? "[{}]:{}" : "{}:{}"), host(), port());
}

}  // namespace weir::transport

// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/socket.h"

#include <cerrno>
#include <charconv>
#include <memory>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "lib/bootstrap/bootstrap.h"

namespace weir::boot {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Result<AddressList> resolve(const HostPort& name) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV;
    addrinfo* found = nullptr;
    const int rc =
        getaddrinfo(name.host.c_str(), std::to_string(name.port).c_str(), &hints, &found);
    if (rc != 0) {
        return Error(Errc::kNotFound,
                     fmt::format("host {} of --rendezvous {}: {}; give a name or address that this "
                                 "machine can look up",
                                 name.host, name.text(), gai_strerror(rc)));
    }
    return AddressList(found, &freeaddrinfo);
}

Descriptor open_socket(const addrinfo& address) {
    return Descriptor(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

Error listen_error(const HostPort& at, int os_error) {
    if (os_error == EADDRINUSE) {
        return {Errc::kAlreadyExists,
                fmt::format("cannot listen on {}: the port is in use, by another job's rank 0 or "
                            "another program; choose another port for --rendezvous on all ranks",
                            at.text()),
                os_error};
    }
    if (os_error == EADDRNOTAVAIL) {
        return {
            Errc::kNotFound,
            fmt::format("cannot listen on {}: {} is not this machine; start rank 0 there, or give "
                        "rank 0's own address to all ranks",
                        at.text(), at.host),
            os_error};
    }
    return {Errc::kIo, fmt::format("cannot listen on {}", at.text()), os_error};
}

/// Waits for a non-blocking connect; 0 or the errno it ended with.
int wait_connected(int fd, const Clock& clock, uint64_t deadline_ns) {
    for (;;) {
        const int slice_ms = poll_slice_ms(clock, deadline_ns);
        pollfd entry{fd, POLLOUT, 0};
        const int ready = ::poll(&entry, 1, slice_ms);
        if (ready < 0 && errno != EINTR) return errno;
        if (ready <= 0 && slice_ms == 0) return ETIMEDOUT;
        if (ready <= 0) continue;
        int result = 0;
        socklen_t length = sizeof(result);
        if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &result, &length) != 0) return errno;
        return result;
    }
}

}  // namespace

Result<HostPort> HostPort::parse(std::string_view text) {
    const Error bad(
        Errc::kInvalidArgument,
        fmt::format("rendezvous '{}': must be HOST:PORT with a port from 1 to 65535, such "
                    "as node7:4000 or [fe80::1]:4000",
                    text));
    const size_t colon = text.rfind(':');
    if (colon == std::string_view::npos || colon == 0) return bad;
    std::string_view host = text.substr(0, colon);
    const std::string_view digits = text.substr(colon + 1);
    if (host.starts_with('[') && host.ends_with(']')) {
        host = host.substr(1, host.size() - 2);
    } else if (host.find(':') != std::string_view::npos) {
        return bad;
    }
    uint16_t port = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (error != std::errc{} || stop != digits.data() + digits.size() || port == 0) return bad;
    if (host.empty()) return bad;
    return HostPort{std::string(host), port};
}

std::string HostPort::text() const {
    return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                               : fmt::format("[{}]:{}", host, port);
}

Result<Descriptor> tcp_listen(const HostPort& at) {
    WEIR_ASSIGN(const AddressList addresses, resolve(at));
    int os_error = 0;
    for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
        Descriptor fd = open_socket(*a);
        const int yes = 1;  // a port whose last user is gone may be taken at once
        if (fd && ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0 &&
            ::bind(fd.get(), a->ai_addr, a->ai_addrlen) == 0 &&
            ::listen(fd.get(), SOMAXCONN) == 0) {
            return fd;
        }
        if (os_error == 0) os_error = errno;
    }
    return listen_error(at, os_error);
}

uint16_t tcp_port(const Descriptor& listener) noexcept {
    sockaddr_storage address{};
    socklen_t length = sizeof(address);
    if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
        return 0;
    }
    return address.ss_family == AF_INET6
               ? ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port)
               : ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

Result<Descriptor> tcp_connect(const HostPort& to, const Clock& clock, uint64_t deadline_ns) {
    WEIR_ASSIGN(const AddressList addresses, resolve(to));
    int os_error = ETIMEDOUT;
    for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
        Descriptor fd = open_socket(*a);
        if (!fd) {
            os_error = errno;
            continue;
        }
        os_error = ::connect(fd.get(), a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
        if (os_error == EINPROGRESS) os_error = wait_connected(fd.get(), clock, deadline_ns);
        if (os_error == 0) {
            const int yes = 1;
            (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
            return fd;
        }
    }
    return Error(Errc::kPeerLost, fmt::format("cannot connect to {}", to.text()), os_error);
}

std::string tcp_peer_name(int fd) {
    sockaddr_storage address{};
    socklen_t length = sizeof(address);
    char host[INET6_ADDRSTRLEN] = "?";
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0)
        return "a lost peer";
    uint16_t port = 0;
    if (address.ss_family == AF_INET6) {
        const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
        ::inet_ntop(AF_INET6, &six.sin6_addr, host, sizeof(host));
        port = ntohs(six.sin6_port);
    } else {
        const auto& four = reinterpret_cast<const sockaddr_in&>(address);
        ::inet_ntop(AF_INET, &four.sin_addr, host, sizeof(host));
        port = ntohs(four.sin_port);
    }
    return HostPort{host, port}.text();
}

bool is_loopback(const std::string& host) {
    const auto addresses = resolve(HostPort{host, 1});
    if (!addresses) return false;
    for (const addrinfo* a = addresses.value().get(); a != nullptr; a = a->ai_next) {
        if (a->ai_family == AF_INET6) {
            if (!IN6_IS_ADDR_LOOPBACK(
                    &reinterpret_cast<const sockaddr_in6*>(a->ai_addr)->sin6_addr)) {
                return false;
            }
        } else if ((ntohl(reinterpret_cast<const sockaddr_in*>(a->ai_addr)->sin_addr.s_addr) >>
                    24) != 127) {
            return false;
        }
    }
    return true;
}

}  // namespace weir::boot

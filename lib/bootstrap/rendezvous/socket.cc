// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/rendezvous/socket.h"

#include <algorithm>
#include <cerrno>

#include <fmt/core.h>
#include <poll.h>

#include "lib/bootstrap/bootstrap.h"
#include "transport/net/resolve.h"

namespace weir::boot {
namespace {

using transport::Socket;
using transport::SocketAddress;

Error listen_error(const HostPort& at, const Error& error) {
    if (error.code() == Errc::kAlreadyExists) {
        return {Errc::kAlreadyExists,
                fmt::format("cannot listen on {}: the port is in use, by another job's rank 0 or "
                            "another program; choose another port for --rendezvous on all ranks",
                            at.text()),
                error.os_error()};
    }
    if (error.code() == Errc::kInvalidArgument) {
        return {
            Errc::kNotFound,
            fmt::format("cannot listen on {}: {} is not this machine; start rank 0 there, or give "
                        "rank 0's own address to all ranks",
                        at.text(), at.host),
            error.os_error()};
    }
    return error;
}

/// Waits for a non-blocking connect; 0 or the errno it ended with.
int wait_connected(const Socket& socket, const Clock& clock, uint64_t deadline_ns) {
    for (;;) {
        const int slice_ms = poll_slice_ms(clock, deadline_ns);
        pollfd entry{socket.fd(), POLLOUT, 0};
        const int ready = ::poll(&entry, 1, slice_ms);
        if (ready < 0 && errno != EINTR) return errno;
        if (ready > 0) return socket.failure();
        if (slice_ms == 0) return ETIMEDOUT;
    }
}

}  // namespace

Result<Descriptor> tcp_listen(const HostPort& at) {
    WEIR_ASSIGN(const std::vector<SocketAddress> addresses, transport::resolve(at));
    Status first;
    for (const SocketAddress& address : addresses) {
        Result<Descriptor> listener = transport::listen_on(address);
        if (listener) return listener;
        if (first) first = std::move(listener).error();
    }
    return listen_error(at, first.error());
}

uint16_t tcp_port(const Descriptor& listener) noexcept {
    return SocketAddress::own(listener.get()).port();
}

Result<Socket> tcp_connect(const HostPort& to, const Clock& clock, uint64_t deadline_ns) {
    WEIR_ASSIGN(const std::vector<SocketAddress> addresses, transport::resolve(to));
    int os_error = ETIMEDOUT;
    for (const SocketAddress& address : addresses) {
        Result<Socket> socket = Socket::connect(address, kSilenceMsMax);
        os_error = socket ? wait_connected(*socket, clock, deadline_ns) : socket.error().os_error();
        if (os_error == 0) return socket;
    }
    return Error(Errc::kPeerLost, fmt::format("cannot connect to {}", to.text()), os_error);
}

bool is_loopback(const std::string& host) {
    const auto addresses = transport::resolve(HostPort{host, 1});
    return addresses && std::ranges::all_of(*addresses, &SocketAddress::is_loopback);
}

}  // namespace weir::boot

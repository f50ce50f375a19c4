// SPDX-License-Identifier: Apache-2.0
#include "transport/net/socket.h"

#include <algorithm>
#include <cerrno>

#include <fmt/core.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace weir::transport {

namespace {

void set(int fd, int level, int option, int value) {
    // Each of these options improves something, but none is needed, so errors are ignored.
    static_cast<void>(::setsockopt(fd, level, option, &value, sizeof(value)));
}

}  // namespace

Result<Descriptor> listen_on(const SocketAddress& address) {
    Descriptor fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) return Error(Errc::kIo, "cannot make a TCP socket (see `ulimit -n`)", errno);
    set(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    // On :: it listens for IPv4, too, whatever the default of this machine is.
    if (address.family() == AF_INET6) set(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (::bind(fd.get(), address.raw(), address.raw_bytes()) != 0 ||
        ::listen(fd.get(), kBacklog) != 0) {
        const int code = errno;
        if (code == EADDRINUSE) {
            return Error(
                Errc::kAlreadyExists,
                fmt::format("{} is in use by another program: choose another port, or 0 for "
                            "any",
                            address.text()),
                code);
        }
        if (code == EADDRNOTAVAIL) {
            return Error(Errc::kInvalidArgument,
                         fmt::format("{} is not an address of this machine: choose one of those "
                                     "that `ip address` lists",
                                     address.host()),
                         code);
        }
        return Error(Errc::kIo, fmt::format("cannot listen on {}", address.text()), code);
    }
    return fd;
}

Socket::Socket(Descriptor fd, uint32_t silence_ms_max) : fd_(std::move(fd)) {
    tune(silence_ms_max);
}

Result<Socket> Socket::connect(const SocketAddress& to, uint32_t silence_ms_max) {
    Descriptor fd(::socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) return Error(Errc::kIo, "cannot make a TCP socket (see `ulimit -n`)", errno);
    Socket socket(std::move(fd), silence_ms_max);
    if (::connect(socket.fd(), to.raw(), to.raw_bytes()) != 0 && errno != EINPROGRESS) {
        return Error(Errc::kIo, fmt::format("cannot connect to {}", to.text()), errno);
    }
    return socket;
}

/// Makes the kernel notice a dead host: after a second without traffic it probes once a second,
/// and ends the connection if nothing has come back for `silence_ms_max`.
void Socket::tune(uint32_t silence_ms_max) const {
    set(fd(), IPPROTO_TCP, TCP_NODELAY, 1);
    set(fd(), SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd(), IPPROTO_TCP, TCP_KEEPIDLE, 1);
    set(fd(), IPPROTO_TCP, TCP_KEEPINTVL, 1);
    set(fd(), IPPROTO_TCP, TCP_KEEPCNT, std::max(1, static_cast<int>(silence_ms_max / 1000)));
    set(fd(), IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(silence_ms_max));
}

void Socket::reset() noexcept {
    const linger at_once{1, 0};
    static_cast<void>(::setsockopt(fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)));
    fd_.reset();
}

int Socket::failure() const noexcept {
    int code = 0;
    socklen_t bytes = sizeof(code);
    if (::getsockopt(fd(), SOL_SOCKET, SO_ERROR, &code, &bytes) != 0) return errno;
    if (code != 0) return code;
    // Who connects to a port of its own host to which nobody listens may get that port itself.
    const SocketAddress own = SocketAddress::own(fd());
    const SocketAddress peer = SocketAddress::peer(fd());
    return own.same_host(peer) && own.port() == peer.port() ? ECONNREFUSED : 0;
}

std::optional<size_t> Socket::send_some(std::span<const std::byte> bytes) const {
    size_t done = 0;
    while (done < bytes.size()) {
        const ssize_t sent = ::send(fd(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
        if (sent >= 0) {
            done += static_cast<size_t>(sent);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            break;
        } else if (errno != EINTR) {
            return std::nullopt;
        }
    }
    return done;
}

std::optional<size_t> Socket::send_some(std::span<iovec> parts) const {
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    for (;;) {
        const ssize_t sent = ::sendmsg(fd(), &message, MSG_NOSIGNAL);
        if (sent >= 0) return static_cast<size_t>(sent);
        if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
        if (errno != EINTR) return std::nullopt;
    }
}

bool Socket::send(std::vector<std::byte>& bytes) {
    const std::optional<size_t> sent = send_some(bytes);
    if (sent) bytes.erase(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(*sent));
    return sent.has_value();
}

Socket::Got Socket::receive(std::span<std::byte> into, size_t& count) {
    iovec one{into.data(), into.size()};
    return receive(std::span(&one, 1), count);
}

Socket::Got Socket::receive(std::span<iovec> into, size_t& count) {
    msghdr message{};
    message.msg_iov = into.data();
    message.msg_iovlen = into.size();
    count = 0;
    for (;;) {
        const ssize_t got = ::recvmsg(fd(), &message, 0);
        if (got > 0) {
            count = static_cast<size_t>(got);
            return Got::kSome;
        }
        if (got == 0) return Got::kEnd;
        if (errno == EINTR) continue;
        return errno == EAGAIN || errno == EWOULDBLOCK ? Got::kNothing : Got::kBroken;
    }
}

}  // namespace weir::transport

// SPDX-License-Identifier: Apache-2.0
#include "bench/limits/socket_pair.h"

#include <algorithm>
#include <cerrno>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>

namespace weir::bench {

SocketPair::SocketPair() noexcept {
    const Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const at = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener.get(), at, length) != 0 || ::listen(listener.get(), 1) != 0 ||
        ::getsockname(listener.get(), at, &length) != 0)
        return;
    ends_[0] = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(ends_[0].get(), at, length) != 0) return;
    ends_[1] = Descriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const int yes = 1;
    for (const Descriptor& end : ends_)
        (void)::setsockopt(end.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

namespace {

/// Asks again and again, as Weir does: a thread that sleeps in the kernel costs a limit its speed.
/// After many tries the other end is assumed to have no core, and this thread yields its own.
class Again {
public:
    /// After a call that returned `result`: whether to ask again. Otherwise it worked or failed.
    bool operator()(ssize_t result) noexcept {
        if (result >= 0 || (errno != EAGAIN && errno != EINTR)) {
            tries_ = 0;
            return false;
        }
        if (++tries_ % kTriesMax == 0) sched_yield();
        return true;
    }

private:
    static constexpr uint32_t kTriesMax = 1 << 12;
    uint32_t tries_ = 0;
};

}  // namespace

bool send_all(int fd, std::span<const std::byte> bytes) noexcept {
    Again again;
    while (!bytes.empty()) {
        const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (again(sent)) continue;
        if (sent <= 0) return false;
        bytes = bytes.subspan(static_cast<size_t>(sent));
    }
    return true;
}

bool send_all(int fd, std::span<iovec> parts) noexcept {
    Again again;
    while (!parts.empty()) {
        msghdr message{};
        message.msg_iov = parts.data();
        message.msg_iovlen = parts.size();
        const ssize_t sent = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (again(sent)) continue;
        if (sent <= 0) return false;
        for (auto left = static_cast<size_t>(sent); left > 0;) {
            iovec& part = parts.front();
            const size_t now = std::min(left, part.iov_len);
            part.iov_base = static_cast<std::byte*>(part.iov_base) + now;
            part.iov_len -= now;
            left -= now;
            if (part.iov_len == 0) parts = parts.subspan(1);
        }
    }
    return true;
}

bool receive_all(int fd, std::span<std::byte> bytes) noexcept {
    Again again;
    while (!bytes.empty()) {
        const ssize_t got = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (again(got)) continue;
        if (got <= 0) return false;
        bytes = bytes.subspan(static_cast<size_t>(got));
    }
    return true;
}

}  // namespace weir::bench

// SPDX-License-Identifier: Apache-2.0
#include "transport/net/unix_socket.h"

#include <cerrno>
#include <cstring>

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "lib/base/check.h"
#include "transport/net/socket.h"

namespace weir::transport {

namespace {

constexpr int kSocketType = SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC;

struct AbstractAddress {
    sockaddr_un address = {};
    socklen_t length_bytes = 0;

    explicit AbstractAddress(const std::string& name) {
        WEIR_CHECK(name.size() + 1 <= sizeof(address.sun_path));
        address.sun_family = AF_UNIX;
        std::memcpy(address.sun_path + 1, name.data(), name.size());
        length_bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    }

    [[nodiscard]] const sockaddr* get() const noexcept {
        return reinterpret_cast<const sockaddr*>(&address);
    }
};

}  // namespace

Result<Descriptor> listen_abstract(const std::string& name) {
    Descriptor socket_fd(socket(AF_UNIX, kSocketType, 0));
    if (!socket_fd) return Error(Errc::kIo, "cannot make a Unix socket (see `ulimit -n`)", errno);
    const AbstractAddress address(name);
    if (bind(socket_fd.get(), address.get(), address.length_bytes) != 0 ||
        listen(socket_fd.get(), kBacklog) != 0) {
        return Error(Errc::kIo, fmt::format("cannot listen on the Unix socket @{}", name), errno);
    }
    return socket_fd;
}

Result<Descriptor> dial_abstract(const std::string& name) {
    Descriptor socket_fd(socket(AF_UNIX, kSocketType, 0));
    if (!socket_fd) return Error(Errc::kIo, "cannot make a Unix socket (see `ulimit -n`)", errno);
    const AbstractAddress address(name);
    if (connect(socket_fd.get(), address.get(), address.length_bytes) == 0) return socket_fd;
    if (errno == EAGAIN) return Descriptor();
    return Error(
        Errc::kPeerLost,
        fmt::format("no process listens on the Unix socket @{}; the one that did has ended", name),
        errno);
}

Result<PeerIdentity> peer_identity(int socket) {
    ucred credentials = {};
    socklen_t length = sizeof(credentials);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
        return Error(Errc::kIo, "cannot tell which process is at the other end (SO_PEERCRED)",
                     errno);
    }
    return PeerIdentity{credentials.pid, credentials.uid};
}

Status send_packet(int socket, std::span<const std::byte> bytes, std::span<const int> fds) {
    WEIR_CHECK(bytes.size() <= kPacketBytesMax && fds.size() <= kPacketFdsMax);
    iovec part = {const_cast<std::byte*>(bytes.data()), bytes.size()};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kPacketFdsMax)> control = {};
    if (!fds.empty()) {
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(fds.size_bytes());
        cmsghdr* const head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(fds.size_bytes());
        std::memcpy(CMSG_DATA(head), fds.data(), fds.size_bytes());
    }
    const ssize_t sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent == static_cast<ssize_t>(bytes.size())) return {};
    if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS)) {
        return Error(Errc::kBusy,
                     "the peer does not read its socket, which is full; see whether it is stopped",
                     errno);
    }
    return Error(Errc::kPeerLost, "the peer has closed its socket", errno);
}

Receive receive_packet(int socket, Packet& packet) {
    iovec part = {packet.buffer.data(), packet.buffer.size()};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kPacketFdsMax)> control = {};
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    packet.fds.clear();
    constexpr int kFlags = MSG_DONTWAIT | MSG_CMSG_CLOEXEC;
    ssize_t received = recvmsg(socket, &message, kFlags);
    // The kernel reports this once, for a peer that closed before it read all of our packets.
    // What it sent can still be read.
    if (received < 0 && errno == ECONNRESET) received = recvmsg(socket, &message, kFlags);
    if (received < 0) {
        return errno == EAGAIN || errno == EINTR ? Receive::kNothing : Receive::kEnd;
    }
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
         head = CMSG_NXTHDR(&message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
        const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(int));
            packet.fds.emplace_back(fd);
        }
    }
    packet.length_bytes = static_cast<size_t>(received);
    packet.truncated = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
    // Weir sends no empty packets, so 0 is the end of the stream.
    return received == 0 ? Receive::kEnd : Receive::kPacket;
}

}  // namespace weir::transport

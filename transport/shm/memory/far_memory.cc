// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/memory/far_memory.h"

#include <cerrno>
#include <csignal>

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace weir::transport::shm {

namespace {

/// Whether the other end of the socket still exists.
bool still_connected(int socket) noexcept {
    std::byte byte{};
    const ssize_t received = recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return received > 0 || (received < 0 && errno == EAGAIN);
}

bool has_ended(const Descriptor& pidfd) noexcept {
    pollfd ended = {pidfd.get(), POLLIN, 0};
    return poll(&ended, 1, 0) != 0;
}

Errc code_of(int os_error) noexcept {
    if (os_error == EFAULT) return Errc::kOutOfRange;
    return os_error == ESRCH ? Errc::kPeerLost : Errc::kUnavailable;
}

}  // namespace

FarProcess FarProcesses::find(pid_t pid, int socket) {
    if (pid <= 0) return {};
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const Descriptor> pidfd = known_[pid].lock();
    if (pidfd == nullptr || has_ended(*pidfd)) {
        pidfd =
            std::make_shared<const Descriptor>(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
        std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
    }
    // The socket is still connected after the process of that pid was seen to live, so that is the one.
    if (!*pidfd || !still_connected(socket)) return {};
    known_[pid] = pidfd;
    return {pid, std::move(pidfd)};
}

template <auto Call>
Errc FarProcess::move(std::byte* here, size_t length_bytes, uint64_t there) const noexcept {
    if (!pidfd_) return Errc::kUnavailable;
    if (has_ended(*pidfd_)) return Errc::kPeerLost;
    while (length_bytes > 0) {
        const iovec local = {here, length_bytes};
        const iovec remote = {reinterpret_cast<void*>(there), length_bytes};  // NOLINT: not ours
        const ssize_t moved = Call(pid_, &local, 1, &remote, 1, 0);
        if (moved < 0 && errno == EINTR) continue;
        if (moved <= 0) return moved == 0 ? Errc::kOutOfRange : code_of(errno);
        here += moved;
        there += static_cast<uint64_t>(moved);
        length_bytes -= static_cast<size_t>(moved);
    }
    return Errc::kOk;
}

Errc FarProcess::read(std::span<std::byte> into, uint64_t from_address) const noexcept {
    return move<process_vm_readv>(into.data(), into.size(), from_address);
}

Errc FarProcess::write(std::span<const std::byte> from, uint64_t to_address) const noexcept {
    return move<process_vm_writev>(const_cast<std::byte*>(from.data()), from.size(), to_address);
}

bool FarProcess::kill() const noexcept {
    return pidfd_ && syscall(SYS_pidfd_send_signal, pidfd_->get(), SIGKILL, nullptr, 0) == 0;
}

}  // namespace weir::transport::shm

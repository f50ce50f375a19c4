// SPDX-License-Identifier: Apache-2.0
#include "tests/transport/conformance/forked_channel.h"

#include <sys/socket.h>
#include <unistd.h>

namespace weir::transport::conformance {

namespace {

struct Head {
    size_t length_bytes = 0;
    bool has_fd = false;
};

union Control {
    cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
};

bool write_all(int fd, const char* from, size_t length) {
    while (length > 0) {
        const ssize_t done = ::send(fd, from, length, MSG_NOSIGNAL);
        if (done <= 0) return false;
        from += done;
        length -= static_cast<size_t>(done);
    }
    return true;
}

bool read_all(int fd, char* to, size_t length) {
    while (length > 0) {
        const ssize_t done = ::recv(fd, to, length, 0);
        if (done <= 0) return false;
        to += done;
        length -= static_cast<size_t>(done);
    }
    return true;
}

}  // namespace

Channel::~Channel() {
    ::close(fd_);
}

void Channel::hang_up() {
    ::shutdown(fd_, SHUT_RDWR);
}

bool Channel::send(const Values& values, int fd) {
    Head head{values.bytes().size(), fd >= 0};
    iovec part{&head, sizeof head};
    Control control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (fd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        cmsghdr* const right = CMSG_FIRSTHDR(&message);
        right->cmsg_level = SOL_SOCKET;
        right->cmsg_type = SCM_RIGHTS;
        right->cmsg_len = CMSG_LEN(sizeof fd);
        std::memcpy(CMSG_DATA(right), &fd, sizeof fd);
    }
    return ::sendmsg(fd_, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof head) &&
           write_all(fd_, values.bytes().data(), values.bytes().size());
}

std::optional<Channel::Parcel> Channel::receive() {
    Head head;
    iovec part{&head, sizeof head};
    Control control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    if (::recvmsg(fd_, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL) !=
        static_cast<ssize_t>(sizeof head)) {
        return std::nullopt;
    }
    Parcel parcel;
    const cmsghdr* const right = CMSG_FIRSTHDR(&message);
    if (head.has_fd && right != nullptr) {
        std::memcpy(&parcel.fd, CMSG_DATA(right), sizeof parcel.fd);
    }
    std::string bytes(head.length_bytes, '\0');
    if (!read_all(fd_, bytes.data(), bytes.size())) return std::nullopt;
    parcel.values = Values(std::move(bytes));
    return parcel;
}

}  // namespace weir::transport::conformance

// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/rendezvous_link.h"

#include <cerrno>

#include <sys/socket.h>

namespace weir::boot {

Status RendezvousLink::flush() {
    while (!out_.empty()) {
        const std::string& bytes = *out_.front();
        const ssize_t sent =
            ::send(fd_.get(), bytes.data() + out_sent_, bytes.size() - out_sent_, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EAGAIN) return {};
        if (sent < 0) return Error(Errc::kPeerLost, "the connection broke", errno);
        out_sent_ += static_cast<size_t>(sent);
        if (out_sent_ == bytes.size()) {
            out_.pop_front();
            out_sent_ = 0;
        }
    }
    return {};
}

Status RendezvousLink::fill() {
    char buffer[8192];
    const ssize_t got = ::recv(fd_.get(), buffer, sizeof(buffer), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {};
    if (got < 0) return Error(Errc::kPeerLost, "the connection broke", errno);
    if (got == 0) return Error(Errc::kPeerLost, "the connection was closed");
    reader_.feed(std::string_view(buffer, static_cast<size_t>(got)));
    return {};
}

}  // namespace weir::boot

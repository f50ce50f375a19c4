// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/doctor/talk.h"

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>

namespace weir::tools {
namespace {

constexpr int kWaitMs = 30'000;
constexpr int kConnectMs = 10'000;
constexpr size_t kLineBytesMax = 4096;

bool waits_for(int fd, short what, int timeout_ms) {
    pollfd wanted{fd, what, 0};
    int ready = 0;
    do {
        ready = ::poll(&wanted, 1, timeout_ms);
    } while (ready < 0 && errno == EINTR);
    return ready > 0;
}

}  // namespace

Talk::Talk(Descriptor socket) : socket_(std::move(socket)) {
    (void)::fcntl(socket_.get(), F_SETFL, O_NONBLOCK);
}

Result<Talk> Talk::call(const transport::SocketAddress& at) {
    Descriptor socket(::socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    int error = EMFILE;
    if (socket) {
        error = ::connect(socket.get(), at.raw(), at.raw_bytes()) == 0 ? 0 : errno;
        if (error == EINPROGRESS) {
            socklen_t bytes = sizeof(error);
            if (!waits_for(socket.get(), POLLOUT, kConnectMs)) {
                error = ETIMEDOUT;
            } else if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) {
                error = errno;
            }
        }
    }
    if (error == 0) return Talk(std::move(socket));
    return Error(
        Errc::kUnavailable,
        fmt::format("{}: cannot be reached; start `weir doctor --listen {}` there, and let "
                    "firewalls pass that port",
                    at.text(), at.port()),
        error);
}

Status Talk::say(std::string_view line) {
    std::string text = fmt::format("{}\n", line);
    while (!text.empty()) {
        const ssize_t sent = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
        if (sent >= 0) {
            text.erase(0, static_cast<size_t>(sent));
        } else if (errno == EAGAIN) {
            if (!waits_for(socket_.get(), POLLOUT, kWaitMs))
                return Error(Errc::kDeadline, "the other `weir doctor` takes nothing any more");
        } else if (errno != EINTR) {
            return Error(Errc::kPeerLost, "the connection to the other `weir doctor` broke", errno);
        }
    }
    return {};
}

bool Talk::has_line() const {
    return heard_.find('\n') != std::string::npos || waits_for(socket_.get(), POLLIN, 0);
}

Result<std::string> Talk::hear() {
    for (;;) {
        if (const size_t end = heard_.find('\n'); end != std::string::npos) {
            std::string line = heard_.substr(0, end);
            heard_.erase(0, end + 1);
            return line;
        }
        if (heard_.size() > kLineBytesMax)
            return Error(Errc::kProtocol, "what answers there is no `weir doctor`");
        if (!waits_for(socket_.get(), POLLIN, kWaitMs))
            return Error(Errc::kDeadline,
                         "the other `weir doctor` says nothing; is it one, and does it run?");
        std::array<char, 1024> bytes{};
        const ssize_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (got <= 0)
            return Error(Errc::kPeerLost, "the other `weir doctor` has ended", got < 0 ? errno : 0);
        heard_.append(bytes.data(), static_cast<size_t>(got));
    }
}

}  // namespace weir::tools

// SPDX-License-Identifier: Apache-2.0
#include "transport/net/acceptor.h"

#include <cerrno>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "transport/net/socket.h"

namespace weir::transport {

Status Acceptor::listen(const SocketAddress& address, SocketAddress host) {
    WEIR_ASSIGN(Descriptor socket, listen_on(address));
    WEIR_ASSIGN(listener_, Listener::make(std::move(socket), watcher_, watch_name_));
    SocketAddress reachable = SocketAddress::own(listener_->fd());
    if (reachable.is_any()) {
        if (host.family() == 0) {
            return Error(Errc::kInvalidArgument,
                         fmt::format("cannot find out at which address other hosts reach this one: "
                                     "set WEIR_BIND to an address of it instead of {}",
                                     address.host()));
        }
        host.set_port(reachable.port());
        reachable = host;
    }
    address_ = std::string(scheme_) + reachable.text();
    return {};
}

void Acceptor::accept_all() {
    while (host_.has_room()) {
        if (const uint64_t place_ns = places_.next_ns(); clock_.now_ns() < place_ns) {
            listener_->pause(place_ns);
            return;
        }
        Descriptor fd = listener_->accept();
        if (!fd) {
            if (errno == EINTR || errno == ECONNABORTED) continue;
            if (errno == EAGAIN || errno == EWOULDBLOCK) return;
            const Error error(
                Errc::kIo, "cannot accept connections now, tries again (see `ulimit -n`)", errno);
            places_.log().log(LogLevel::kWarning, "accept",
                              fmt::format("{}: {}", address(), error.message()));
            listener_->pause(clock_.now_ns() + kAcceptAgainNs);
            return;
        }
        if (places_.is_full()) {
            if (const std::optional<uint64_t> evicted = places_.next_evicted()) {
                host_.evict(*evicted);
            }
        }
        if (const uint64_t id = host_.adopt(std::move(fd)); id != 0) places_.take(id);
    }
    listener_->pause(Listener::kUntilResumedNs);
}

}  // namespace weir::transport

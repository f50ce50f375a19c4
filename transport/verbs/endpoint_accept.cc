// SPDX-License-Identifier: Apache-2.0
/// \file
/// VerbsEndpoint: takes the connections that others begin. Who has proved nothing yet has one of a
/// few places, and loses it to the next only when it has had its time.

#include <cerrno>
#include <limits>

#include <sys/epoll.h>
#include <sys/socket.h>

#include "lib/base/log.h"
#include "transport/net/half_open.h"
#include "transport/verbs/endpoint.h"
#include "transport/verbs/endpoint_limits.h"

namespace weir::transport::verbs {

namespace {

using State = Connection::State;

constexpr uint64_t kNobodyKnows = std::numeric_limits<uint64_t>::max();

bool is_stranger(const Connection& c) noexcept {
    return c.state == State::kHandshake && c.side == Side::kAccepting && c.qp == nullptr;
}

}  // namespace

void VerbsEndpoint::accept_all() {
    while (slots_.size() - free_slots_.size() < 0xffff) {
        if (const uint64_t place_ns = next_place_ns(); device_.clock().now_ns() < place_ns) {
            stop_listening(place_ns);
            return;
        }
        Descriptor fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!fd) {
            if (errno == EINTR || errno == ECONNABORTED) continue;
            if (errno == EAGAIN || errno == EWOULDBLOCK) return;
            const Error error(Errc::kIo, "cannot accept connections now", errno);
            log(LogLevel::kWarning, "verbs: {} {}", address_, error.message());
            stop_listening(device_.clock().now_ns() + kAcceptAgainMs * kMillisecond);
            return;
        }
        if (half_open_ >= kHalfOpenMost) show_out_oldest();
        Connection& c = add_connection(Side::kAccepting);
        ++half_open_;
        c.tcp_connected = true;
        c.peer_name = SocketAddress::peer(fd.get()).text();
        c.socket = Socket(std::move(fd), device_.options().silence_ms_max);
        set_deadline(c, device_.options().handshake_ms_max);
        watch_socket(c, false);
    }
    stop_listening(kNobodyKnows);
}

Connection* VerbsEndpoint::oldest_stranger() const noexcept {
    Connection* oldest = nullptr;
    for (const auto& slot : slots_) {
        if (slot == nullptr || !is_stranger(*slot)) continue;
        if (oldest == nullptr || slot->deadline_ns < oldest->deadline_ns) oldest = slot.get();
    }
    return oldest;
}

/// When somebody who waits may come in; 0: there is a place.
uint64_t VerbsEndpoint::next_place_ns() const noexcept {
    if (half_open_ < kHalfOpenMost) return 0;
    const Connection* const oldest = oldest_stranger();
    if (oldest == nullptr) return kNobodyKnows;  // all are friends about to be open
    const uint64_t patience_ns = device_.options().handshake_ms_max * kMillisecond;
    return oldest->deadline_ns - patience_ns + wanted_place_ns(patience_ns);
}

void VerbsEndpoint::show_out_oldest() {
    Connection* const oldest = oldest_stranger();
    if (oldest == nullptr) return;
    serve_socket(*oldest);  // if we were late, its proof may be here
    if (!is_stranger(*oldest)) return;
    ++counters_.refused;
    oldest->handshake.refuse(Errc::kDeadline, "others want the place; come again");
    fail(*oldest, Errc::kDeadline, "it has proved nothing, and others want its place");
}

/// The others wait in the backlog.
void VerbsEndpoint::stop_listening(uint64_t until_ns) {
    epoll_event event{};
    event.data.u64 = kWatchListener;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), &event);
    listening_ = false;
    if (until_ns == kNobodyKnows) return;
    if (accept_again_ns_ == 0) ++deadlines_;
    accept_again_ns_ = until_ns;
}

void VerbsEndpoint::listen_again() {
    if (listening_) return;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kWatchListener;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), &event);
    listening_ = true;
    if (accept_again_ns_ != 0) --deadlines_;
    accept_again_ns_ = 0;
}

}  // namespace weir::transport::verbs

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Meeting: takes the connections that peers begin. Peers that have proved nothing yet share a
/// few places. When all are taken, the oldest such peer loses its place to the next one, but not
/// before it has had its time (wanted_place_ns()).

#include <cerrno>

#include "lib/base/log.h"
#include "transport/net/half_open.h"
#include "transport/verbs/endpoint_limits.h"
#include "transport/verbs/meeting.h"

namespace weir::transport::verbs {

void Meeting::accept_all() {
    while (!connections_.is_full()) {
        if (const uint64_t place_ns = next_place_ns(); device_.clock().now_ns() < place_ns) {
            listener_->rest(place_ns);
            return;
        }
        Descriptor fd = listener_->accept();
        if (!fd) {
            if (errno == EINTR || errno == ECONNABORTED) continue;
            if (errno == EAGAIN || errno == EWOULDBLOCK) return;
            const Error error(Errc::kIo, "cannot accept connections now", errno);
            log(LogLevel::kWarning, "verbs: {} {}", address(), error.message());
            listener_->rest(device_.clock().now_ns() + kAcceptAgainMs * kMillisecond);
            return;
        }
        if (half_open_ >= kHalfOpenMost) show_out_oldest();
        Connection& c =
            connections_.add(Side::kAccepting, device_.options().secret, random_bytes());
        ++half_open_;
        c.peer_name = SocketAddress::peer(fd.get()).text();
        host_.enter(c, State::kMeeting);
        if (const Status taken = c.side_channel.adopt(
                std::move(fd), device_.options().silence_ms_max, watcher_, c.id);
            !taken) {
            host_.fail(c, taken.code(), taken.error().message());
        }
    }
    listener_->rest(Listener::kUntilToldNs);
}

Connection* Meeting::oldest_stranger() const noexcept {
    Connection* oldest = nullptr;
    connections_.for_each([&](Connection& c) {
        if (!c.is_stranger()) return;
        if (oldest == nullptr || c.deadline_ns < oldest->deadline_ns) oldest = &c;
    });
    return oldest;
}

/// When the next waiting peer may be accepted; 0: now; kUntilToldNs: when a place becomes free.
uint64_t Meeting::next_place_ns() const noexcept {
    if (half_open_ < kHalfOpenMost) return 0;
    const Connection* const oldest = oldest_stranger();
    if (oldest == nullptr) return Listener::kUntilToldNs;  // all have proved themselves
    const uint64_t patience_ns = device_.options().handshake_ms_max * kMillisecond;
    return oldest->deadline_ns - patience_ns + wanted_place_ns(patience_ns);
}

void Meeting::show_out_oldest() {
    Connection* const oldest = oldest_stranger();
    if (oldest == nullptr) return;
    serve(*oldest);  // if we were late, its proof may be here
    if (!oldest->is_stranger()) return;
    ++counters_.refused;
    oldest->side_channel.handshake().refuse(Errc::kDeadline, "others want the place; come again");
    host_.fail(*oldest, Errc::kDeadline, "it has proved nothing, and others want its place");
}

}  // namespace weir::transport::verbs

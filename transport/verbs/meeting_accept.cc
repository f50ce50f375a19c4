// SPDX-License-Identifier: Apache-2.0
/// \file
/// Meeting: takes the connections that peers begin. HalfOpenPlaces decides how many.

#include <cerrno>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "transport/verbs/endpoint_limits.h"
#include "transport/verbs/meeting.h"

namespace weir::transport::verbs {

void Meeting::accept_all() {
    while (!connections_.is_full()) {
        if (const uint64_t place_ns = places_.next_ns(); device_.clock().now_ns() < place_ns) {
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
                              fmt::format("verbs: {} {}", address(), error.message()));
            listener_->pause(device_.clock().now_ns() + kAcceptAgainMs * kMillisecond);
            return;
        }
        if (places_.is_full()) free_a_place();
        VerbsConnection& c =
            connections_.add(Side::kAccepting, device_.options().secret, random_bytes());
        places_.take(c.id);
        c.peer_name = SocketAddress::peer(fd.get()).text();
        host_.enter(c, State::kMeeting);
        if (const Status taken = c.side_channel.adopt(
                std::move(fd), device_.options().silence_ms_max, watcher_, c.id);
            !taken) {
            host_.fail(c, taken.code(), taken.error().message());
        }
    }
    listener_->pause(Listener::kUntilResumedNs);
}

/// Closes the connection that loses its place to the next one.
void Meeting::free_a_place() {
    const std::optional<uint64_t> evicted = places_.next_evicted();
    VerbsConnection* const c = evicted ? connections_.find(*evicted) : nullptr;
    if (c == nullptr) return;
    serve(*c);  // if we were late, its proof may be here
    if (!c->is_unproven()) return;
    ++counters_.refused;
    c->side_channel.handshake().refuse(Errc::kDeadline, HalfOpenPlaces::kRetryText);
    host_.fail(*c, Errc::kDeadline, HalfOpenPlaces::kEvictedText);
}

}  // namespace weir::transport::verbs

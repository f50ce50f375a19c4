// SPDX-License-Identifier: Apache-2.0
/// \file
/// Meeting: the connections that peers begin.

#include "transport/verbs/setup/meeting.h"

namespace weir::transport::verbs {

uint64_t Meeting::adopt(Descriptor socket) {
    VerbsConnection& c =
        connections_.add(Side::kAccepting, device_.options().secret, random_bytes());
    c.peer_name = SocketAddress::peer(socket.get()).text();
    host_.enter(c, State::kMeeting);
    if (const Status taken = c.side_channel.adopt(std::move(socket),
                                                  device_.options().silence_ms_max, watcher_, c.id);
        !taken) {
        host_.fail(c, taken.code(), taken.error().message());
        return 0;
    }
    return c.id;
}

void Meeting::evict(uint64_t id) {
    VerbsConnection* const c = connections_.find(id);
    if (c == nullptr) return;
    serve(*c);  // if we were late, its proof may be here
    if (!c->is_unproven()) return;
    ++counters_.refused;
    c->side_channel.handshake().refuse(Errc::kDeadline, HalfOpenPlaces::kRetryText);
    host_.fail(*c, Errc::kDeadline, HalfOpenPlaces::kEvictedText);
}

}  // namespace weir::transport::verbs

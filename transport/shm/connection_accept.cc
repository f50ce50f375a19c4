// SPDX-License-Identifier: Apache-2.0
/// \file
/// ConnectionSetup: takes the connections that peers begin.
#include <cerrno>

#include <fmt/core.h>
#include <unistd.h>

#include "lib/base/log.h"
#include "transport/shm/connection_setup.h"

namespace weir::transport::shm {

namespace {

constexpr int kAcceptsPerWatch = 16;
/// How long the listener rests after the process ran out of descriptors.
constexpr uint64_t kListenAgainNs = 50 * kMillisecond;

}  // namespace

void ConnectionSetup::accept_links() {
    for (auto& link : offers_->take()) {
        Channel channel(link->memory.bytes(), link->shape, Side::kAccepting);
        const bool full = connections_.count() >= options_.connections_max;
        if (full) {
            channel.out.put_close(0);
        } else {
            static_cast<void>(channel.out.put(RecordKind::kAccept, 0));  // the ring is empty
        }
        channel.out.publish();
        link->connecting_bell->ring();
        if (full) continue;
        ShmConnection& c = connections_.add(Side::kAccepting);
        host_.enter(c, State::kOpen);
        c.link = std::move(link);
        c.channel = channel;
        c.asymmetric = device_.has_membarrier();
        host_.open(c);
    }
}

void ConnectionSetup::accept_sockets() {
    for (int i = 0; i < kAcceptsPerWatch; ++i) {
        if (const uint64_t place_ns = places_.next_ns(); clock_.now_ns() < place_ns) {
            listener_.pause(place_ns);
            return;
        }
        Descriptor socket = listener_.accept();
        if (!socket) {
            if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR) return;
            const Error error(Errc::kIo, "accept (see `ulimit -n`)", errno);
            refusal_log().log(LogLevel::kWarning, "accept",
                              fmt::format("shm: cannot accept connections now, tries again: {}",
                                          error.message()));
            listener_.pause(clock_.now_ns() + kListenAgainNs);
            return;
        }
        if (places_.is_full()) free_a_place();
        if (connections_.count() >= options_.connections_max) {
            refusal_log().log(
                LogLevel::kWarning, "limit",
                fmt::format("shm: a connection is refused: this endpoint has {}, its limit",
                            connections_.count()));
            continue;
        }
        ShmConnection& c = connections_.add(Side::kAccepting);
        host_.enter(c, State::kShaking);
        places_.take(c.id);
        c.socket = std::move(socket);
        c.handshake = std::make_unique<ChannelHandshake>(self_, Side::kAccepting);
        auto peer = peer_identity(c.socket.get());
        if (peer) c.peer = *peer;
        if (!peer || peer->uid != geteuid()) {
            host_.refuse(c, Error(Errc::kRefused, "the process there belongs to another user"));
        } else if (const Status watched =
                       watcher_.watch(c.socket.get(), c.id, Watcher::For::kInput);
                   !watched) {
            host_.refuse(c, watched.error());
        } else {
            advance(c);
        }
    }
}

/// Closes the connection that loses its place to the next one.
void ConnectionSetup::free_a_place() {
    const std::optional<ConnectionId> evicted = places_.next_evicted();
    if (ShmConnection* const c = evicted ? connections_.find(*evicted) : nullptr) {
        advance(*c);  // if we were late, its proof may be here
    }
    ShmConnection* const c = evicted ? connections_.find(*evicted) : nullptr;
    if (c == nullptr || !c->is_unproven()) return;
    c->handshake->refuse_for_now(c->socket.get());
    host_.refuse(*c, Error(Errc::kDeadline, std::string(HalfOpenPlaces::kEvictedText)));
}

}  // namespace weir::transport::shm

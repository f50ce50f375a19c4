// SPDX-License-Identifier: Apache-2.0
/// \file
/// ShmEndpoint: takes the connections that peers begin. Peers that connect through the socket and
/// have proved nothing yet share a few places. When all are taken, the oldest such peer loses its
/// place to the next one, but not before it has had its time (wanted_place_ns()).
#include <algorithm>
#include <cerrno>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/log.h"
#include "transport/shm/endpoint.h"

namespace weir::transport::shm {

namespace {

constexpr int kAcceptsPerLook = 16;
/// How long the listener rests after the process ran out of descriptors.
constexpr uint64_t kListenAgainNs = 50 * kMillisecond;

}  // namespace

void ShmEndpoint::accept_links() {
    for (auto& link : mailbox_->take()) {
        Channel channel(link->memory.bytes(), link->shape, Side::kAccepting);
        const bool full = connections_ >= options_.connections_max;
        if (full) {
            channel.out.put_close(0);
        } else {
            static_cast<void>(channel.out.put(RecordKind::kAccept, 0));  // the ring is empty
        }
        channel.out.publish();
        link->connecting_bell->ring();
        if (full) continue;
        Connection& connection = add_connection(Side::kAccepting, State::kOpen);
        connection.link = std::move(link);
        connection.channel = channel;
        connection.asymmetric = device_.has_membarrier();
        opened(connection);
    }
}

void ShmEndpoint::accept_sockets() {
    for (int i = 0; i < kAcceptsPerLook; ++i) {
        if (const uint64_t place_ns = next_place_ns(); clock_.now_ns() < place_ns) {
            stop_listening(place_ns);
            return;
        }
        Descriptor socket(
            accept4(descriptors_.listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!socket) {
            if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR) return;
            log(LogLevel::kWarning, "shm: cannot accept connections now: {}",
                Error(Errc::kIo, "no descriptor (see ulimit -n)", errno).message());
            stop_listening(clock_.now_ns() + kListenAgainNs);
            return;
        }
        if (half_open_ >= device_.options().handshakes_max) show_out_oldest();
        if (connections_ >= options_.connections_max) {
            strangers_log_.log(
                LogLevel::kWarning, "limit",
                fmt::format("shm: a connection is refused: {} is this endpoint's limit",
                            connections_));
            continue;
        }
        Connection& connection = add_connection(Side::kAccepting, State::kShaking);
        connection.socket = std::move(socket);
        connection.handshake = std::make_unique<ChannelHandshake>(self_, Side::kAccepting);
        auto peer = peer_identity(connection.socket.get());
        if (peer) connection.peer = *peer;
        if (!peer || peer->uid != geteuid()) {
            refuse(connection, Error(Errc::kRefused, "it belongs to another user"));
        } else if (!descriptors_.watch(connection.socket.get(), connection.id)) {
            refuse(connection, Error(Errc::kIo, "epoll", errno));
        } else {
            shake(connection);
        }
    }
}

Connection* ShmEndpoint::oldest_stranger() const noexcept {
    Connection* oldest = nullptr;
    for (const auto& slot : slots_) {
        if (slot == nullptr || !slot->is_stranger()) continue;
        if (oldest == nullptr || slot->deadline_ns < oldest->deadline_ns) oldest = slot.get();
    }
    return oldest;
}

/// When the next waiting peer may be accepted; 0: now.
uint64_t ShmEndpoint::next_place_ns() const noexcept {
    if (half_open_ < device_.options().handshakes_max) return 0;
    const Connection* const oldest = oldest_stranger();
    if (oldest == nullptr) return 0;
    const uint64_t patience_ns = device_.options().handshake_timeout_ns;
    return oldest->deadline_ns - patience_ns + wanted_place_ns(patience_ns);
}

void ShmEndpoint::show_out_oldest() {
    Connection* const oldest = oldest_stranger();
    if (oldest == nullptr) return;
    const ConnectionId id = oldest->id;
    shake(*oldest);  // if we were late, its proof may be here
    Connection* const still = find(id);
    if (still == nullptr || !still->is_stranger()) return;
    still->handshake->send_away(still->socket.get());
    refuse(*still, Error(Errc::kDeadline, "it has proved nothing, and others want its place"));
}

/// A connection that a peer began is open now, or has ended: its place is free.
void ShmEndpoint::leave_place() {
    --half_open_;
    listen_again();
}

/// Stops watching the listener until that time. If it were watched but not served, it would keep
/// the endpoint from sleeping.
void ShmEndpoint::stop_listening(uint64_t until_ns) {
    if (listen_again_ns_ == 0) {
        epoll_ctl(descriptors_.epoll.get(), EPOLL_CTL_DEL, descriptors_.listener.get(), nullptr);
    }
    listen_again_ns_ = until_ns;
}

void ShmEndpoint::listen_again() {
    if (listen_again_ns_ == 0) return;
    listen_again_ns_ = 0;
    static_cast<void>(descriptors_.watch(descriptors_.listener.get(), kListenerTag));
}

}  // namespace weir::transport::shm

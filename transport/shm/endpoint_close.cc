// SPDX-License-Identifier: Apache-2.0
/// \file
/// ShmEndpoint: connections end, in order or because somebody did what he should not.
#include <sys/epoll.h>
#include <sys/socket.h>

#include "lib/base/log.h"
#include "transport/shm/endpoint.h"

namespace weir::transport::shm {

void ShmEndpoint::close(ConnectionId id) {
    Connection* const connection = find(id);
    if (connection == nullptr) return;
    if (connection->has_channel()) say_goodbye(*connection);
    finish(*connection, Errc::kOk);
}

/// The last record; it comes after everything sent before. The peer's socket wakes it.
void ShmEndpoint::say_goodbye(Connection& connection) {
    connection.channel.out.put_close(0);
    connection.channel.out.publish();
    if (connection.link != nullptr) wake(connection);
}

/// Closes a connection because of what the peer did, or what we could not do for it.
void ShmEndpoint::refuse(Connection& connection, const Error& error) {
    const Errc code = error.code();
    const bool peers_fault = code != Errc::kPeerLost && code != Errc::kNoMemory;
    if (peers_fault) ++counters_.refused;
    log(peers_fault || connection.reported() ? LogLevel::kWarning : LogLevel::kInfo,
        "shm: connection {} {} is closed: {}", connection.side == Side::kConnecting ? "to" : "from",
        peer_name(connection.id), error.message());
    if (connection.link != nullptr && connection.has_channel()) say_goodbye(connection);
    finish(connection, code);
}

/// The peer has ended: what it had sent before is still delivered.
void ShmEndpoint::begin_draining(Connection& connection) {
    unwatch_peer(connection);
    connection.phase = Phase::kDraining;
    ++draining_;
}

void ShmEndpoint::unwatch_peer(const Connection& connection) const {
    const int epoll = descriptors_.epoll.get();
    epoll_ctl(epoll, EPOLL_CTL_DEL, connection.socket.get(), nullptr);
    if (connection.far_process.opened()) {
        epoll_ctl(epoll, EPOLL_CTL_DEL, connection.far_process.descriptor(), nullptr);
    }
}

/// The end of a connection. What its completions point into stays until the next poll().
void ShmEndpoint::finish(Connection& connection, Errc status) {
    if (connection.reported()) {
        Completion completion;
        completion.event = Event::kClosed;
        completion.status = status;
        completion.connection = connection.id;
        local_.push(completion);
    } else {
        leave_place();
    }
    if (connection.comes_into_being()) --coming_;
    if (connection.phase == Phase::kDraining) --draining_;
    if (connection.has_channel()) {
        watched_[connection.watch_index] = watched_.back();
        watched_[connection.watch_index].connection->watch_index = connection.watch_index;
        watched_.pop_back();
    }
    if (connection.dirty) std::erase(dirty_, &connection);
    if (connection.lent) std::erase(lent_, &connection);
    if (connection.socket) {
        unwatch_peer(connection);
        shutdown(connection.socket.get(), SHUT_RDWR);  // even if a forked child holds a copy
    }
    if (connection.memory) graveyard_.push_back(std::move(connection.memory));
    if (connection.link != nullptr) link_graveyard_.push_back(std::move(connection.link));
    connection.peer_regions.surrender(graveyard_);
    --connections_;
    const uint32_t slot = slot_index(connection.id);
    slots_[slot].reset();
    free_slots_.push_back(slot);
}

}  // namespace weir::transport::shm

// SPDX-License-Identifier: Apache-2.0
/// \file
/// ShmEndpoint: connections end, in order, or because the peer broke the rules, or because it is
/// lost.
#include <algorithm>

#include <sys/epoll.h>
#include <sys/socket.h>

#include "lib/base/log.h"
#include "transport/shm/endpoint.h"

namespace weir::transport::shm {

void ShmEndpoint::close(ConnectionId id) {
    Connection* const connection = find(id);
    if (connection == nullptr || connection->state == State::kClosing) return;
    if (connection->has_channel()) say_goodbye(*connection);
    end(*connection, Errc::kOk);
}

/// Writes kClose, the last record, behind everything sent before. A peer in another process is
/// woken by its socket (see let_go()).
void ShmEndpoint::say_goodbye(Connection& connection) {
    connection.channel.out.put_close(0);
    connection.channel.out.publish();
    if (connection.link != nullptr) wake(connection);
}

/// Closes a connection because of what the peer did, or of what we could not do for it.
void ShmEndpoint::refuse(Connection& connection, const Error& error) {
    const Errc code = error.code();
    const bool peers_fault = code != Errc::kPeerLost && code != Errc::kNoMemory;
    if (peers_fault) ++counters_.refused;
    const LogLevel level =
        peers_fault || !connection.is_stranger() ? LogLevel::kWarning : LogLevel::kInfo;
    const std::string line = fmt::format("shm: connection {} {} is closed: {}",
                                         connection.side == Side::kConnecting ? "to" : "from",
                                         peer_name(connection.id), error.message());
    if (connection.is_stranger()) {
        strangers_log_.log(level, error.message(), line);
    } else {
        log(level, "{}", line);
    }
    if (connection.link != nullptr && connection.has_channel()) say_goodbye(connection);
    end(connection, code);
}

/// Ends a connection from our side. A peer that knows memory of ours may copy from or to it until
/// it has read our kClose and let go, or is dead; the connection is kept that long.
void ShmEndpoint::end(Connection& connection, Errc status) {
    if (connection.state != State::kOpen || !connection.exposed) {
        finish(connection, status);
        return;
    }
    enter(connection, State::kClosing);
    connection.end_status = status;
    unwatch(connection);
    connection.peer_regions.surrender(graveyard_);
    look_in_ = std::min(look_in_, 1U);
    let_go(connection);
}

/// Tells the peer that we shall not access its memory any more. kClose is written before this, so
/// that a peer which takes kClose first need not wait for the rest.
void ShmEndpoint::let_go(const Connection& connection) const {
    if (connection.link == nullptr) {
        shutdown(connection.socket.get(), SHUT_WR);
        return;
    }
    DirectLink& link = *connection.link;
    const bool connects = connection.side == Side::kConnecting;
    // release: our accesses to the peer's memory come before the peer that sees this reuses it
    (connects ? link.connecting_let_go : link.accepting_let_go)
        .store(true, std::memory_order_release);
    (connects ? link.accepting_bell : link.connecting_bell)->ring();
}

/// Ends the closing connections whose peers have let go, or whose time is over. A peer in this
/// process lets go through the link; the end of a peer in another process is seen on its socket.
void ShmEndpoint::check_closing() {
    const uint64_t now_ns = clock_.now_ns();
    for (size_t i = closing_.size(); i-- > 0;) {
        Connection& connection = *closing_[i];
        if (const DirectLink* const link = connection.link.get(); link != nullptr) {
            const bool connects = connection.side == Side::kConnecting;
            // acquire: pairs with let_go(); the peer's accesses to our memory are over
            if ((connects ? link->accepting_let_go : link->connecting_let_go)
                    .load(std::memory_order_acquire)) {
                finish(connection, connection.end_status);
                continue;
            }
        }
        if (now_ns <= connection.deadline_ns) continue;
        log(LogLevel::kWarning,
            "shm: {} has not taken the end of its connection within {} ms: memory that was exposed "
            "to it may still be read or written, and is not used again",
            peer_name(connection.id), device_.options().close_timeout_ns / kMillisecond);
        connection.memory_in_doubt = true;
        finish(connection, connection.end_status);
    }
}

/// Drops the packets that still come for a connection that is closing. The end of the stream
/// means that the peer has let go.
void ShmEndpoint::discard_packets(Connection& connection) {
    Packet packet;
    for (int i = 0; i < kPacketsPerLook; ++i) {
        const Receive received = receive_packet(connection.socket.get(), packet);
        if (received == Receive::kNothing) return;
        if (received == Receive::kEnd) return finish(connection, connection.end_status);
    }
}

void ShmEndpoint::unwatch(Connection& connection) {
    watched_[connection.watch_index] = watched_.back();
    watched_[connection.watch_index].connection->watch_index = connection.watch_index;
    watched_.pop_back();
    if (connection.dirty) std::erase(dirty_, &connection);
    if (connection.lent) std::erase(lent_, &connection);
    connection.dirty = false;
    connection.lent = false;
}

/// The peer has ended. What it sent before is still delivered.
void ShmEndpoint::begin_draining(Connection& connection) {
    unwatch_peer(connection);
    enter(connection, State::kDraining);
}

void ShmEndpoint::unwatch_peer(const Connection& connection) const {
    const int epoll = descriptors_.epoll.get();
    epoll_ctl(epoll, EPOLL_CTL_DEL, connection.socket.get(), nullptr);
    if (connection.far_process.opened()) {
        epoll_ctl(epoll, EPOLL_CTL_DEL, connection.far_process.descriptor(), nullptr);
    }
}

/// Removes a connection. What its completions point to stays until the next poll().
void ShmEndpoint::finish(Connection& connection, Errc status) {
    if (!connection.is_stranger()) {
        Completion completion;
        completion.event = Event::kClosed;
        completion.status = status;
        completion.connection = connection.id;
        completion.memory_in_doubt = connection.memory_in_doubt;
        local_.push(completion);
    }
    if (connection.has_channel()) {
        let_go(connection);
        unwatch(connection);
    }
    if (connection.socket) {
        unwatch_peer(connection);
        // Not only close(): the peer must see the end even if a forked child holds a copy.
        shutdown(connection.socket.get(), SHUT_RDWR);
    }
    if (connection.memory) graveyard_.push_back(std::move(connection.memory));
    if (connection.link != nullptr) link_graveyard_.push_back(std::move(connection.link));
    connection.peer_regions.surrender(graveyard_);
    enter(connection, State::kGone);
    --connections_;
    const uint32_t slot = slot_index(connection.id);
    slots_[slot].reset();
    free_slots_.push_back(slot);
}

}  // namespace weir::transport::shm

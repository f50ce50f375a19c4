// SPDX-License-Identifier: Apache-2.0
/// \file
/// ShmEndpoint: the states of connections, and how connections end: in order, or because the peer
/// broke the rules or is lost.
#include <algorithm>
#include <utility>

#include <fmt/core.h>
#include <sys/socket.h>

#include "lib/base/log.h"
#include "transport/shm/endpoint.h"

namespace weir::transport::shm {

void ShmEndpoint::enter(ShmConnection& c, State state) {
    const bool began = c.comes_into_being();
    uint64_t deadline_ns = 0;
    switch (state) {
        case State::kDialing:
        case State::kShaking:
        case State::kOffered:
            // One deadline for the whole set-up, across its states.
            deadline_ns =
                began ? c.deadline_ns : clock_.now_ns() + device_.options().handshake_timeout_ns;
            if (!began) polls_until_watch_ = std::min(polls_until_watch_, 1U);
            break;
        case State::kClosing:
            deadline_ns = clock_.now_ns() + (c.is_cut_off ? device_.options().cut_off_timeout_ns
                                                          : device_.options().close_timeout_ns);
            polls_until_watch_ = std::min(polls_until_watch_, 1U);
            break;
        case State::kNew:
        case State::kOpen:
        case State::kDraining:  // the records to deliver are in the ring already
        case State::kGone: break;
    }
    connections_.set_state(c, state, deadline_ns);
    setup_->update_place(c);
}

/// The connection has its rings.
void ShmEndpoint::open(ShmConnection& c) {
    rings_.add(c);
    Completion completion;
    completion.event = c.side == Side::kConnecting ? Event::kConnected : Event::kAccepted;
    completion.connection = c.id;
    own_.push(completion);
}

void ShmEndpoint::close(ConnectionId id) {
    ShmConnection* const connection = connections_.find(id);
    if (connection == nullptr || connection->state == State::kClosing) return;
    if (connection->has_channel()) send_close(*connection, Errc::kOk);
    end(*connection, Errc::kOk);
}

void ShmEndpoint::cut_off(ConnectionId id) {
    ShmConnection* const connection = connections_.find(id);
    if (connection == nullptr || connection->state == State::kClosing) return;
    connection->is_cut_off = true;
    close(id);
}

/// Writes kClose, the last record, behind everything sent before: another `reason` than kOk says that
/// the connection is broken, though this process lives. A peer in another process is woken by its
/// socket (see release_peer_memory()).
void ShmEndpoint::send_close(ShmConnection& connection, Errc reason) {
    connection.channel.out.put_close(static_cast<uint32_t>(reason));
    connection.channel.out.publish();
    if (connection.link != nullptr) wake(connection);
}

/// Closes a connection because of what the peer did, or of what we could not do for it.
void ShmEndpoint::refuse(ShmConnection& connection, const Error& error) {
    const Errc code = error.code();
    const bool peers_fault = code != Errc::kPeerLost && code != Errc::kNoMemory;
    if (peers_fault) ++counters_.refused;
    const LogLevel level =
        peers_fault || !connection.is_unproven() ? LogLevel::kWarning : LogLevel::kInfo;
    const std::string line = fmt::format("shm: the connection {} {} is closed: {}",
                                         connection.side == Side::kConnecting ? "to" : "from",
                                         connection.peer_name(), error.message());
    setup_->refusal_log().log(level, error.message(), line);  // it may be made again and again
    if (connection.has_channel()) send_close(connection, code);
    end(connection, code);
}

/// Ends a connection from our side. A peer that knows memory of ours may copy from or to it until
/// it has read our kClose and released that memory, or is dead; the connection is kept that long.
void ShmEndpoint::end(ShmConnection& connection, Errc status) {
    if (connection.state != State::kOpen || !connection.exposed) {
        finish(connection, status);
        return;
    }
    enter(connection, State::kClosing);
    connection.end_status = status;
    rings_.remove(connection);
    connection.peer_regions.move_mappings(released_memory_);
    release_peer_memory(connection);
}

/// Tells the peer that we shall not access its memory any more. kClose is written before this, so
/// that a peer which takes kClose first need not wait any longer.
void ShmEndpoint::release_peer_memory(const ShmConnection& connection) const {
    if (connection.link == nullptr) {
        shutdown(connection.socket.get(), SHUT_WR);
        return;
    }
    DirectLink& link = *connection.link;
    const bool connects = connection.side == Side::kConnecting;
    // release: our accesses to the peer's memory come before the peer that sees this reuses it
    (connects ? link.connecting_released : link.accepting_released)
        .store(true, std::memory_order_release);
    (connects ? link.accepting_bell : link.connecting_bell)->ring();
}

/// Ends the closing connections whose peers have released our memory, or whose time is over. A
/// peer in this process does so through the link; the end of a peer in another process is seen on
/// its socket.
void ShmEndpoint::check_closing() {
    const uint64_t now_ns = clock_.now_ns();
    connections_.for_each([&](ShmConnection& c) {
        if (c.state != State::kClosing) return;
        if (const DirectLink* const link = c.link.get(); link != nullptr) {
            const bool connects = c.side == Side::kConnecting;
            // acquire: pairs with release_peer_memory(); the peer's accesses to our memory are
            // over
            if ((connects ? link->accepting_released : link->connecting_released)
                    .load(std::memory_order_acquire)) {
                finish(c, c.end_status);
                return;
            }
        }
        if (now_ns <= c.deadline_ns || end_process(c)) return;
        log(LogLevel::kWarning,
            "shm: {} has not acknowledged the end of its connection within {} ms: memory that was "
            "exposed to it may still be read or written, and is not used again",
            c.peer_name(), device_.options().close_timeout_ns / kMillisecond);
        c.memory_in_doubt = true;
        finish(c, c.end_status);
    });
}

/// Ends the process of a peer that was cut off and still holds our memory, once: how it ends is seen as
/// for others. False: it may not be ended, or has not ended within the time of a close.
bool ShmEndpoint::end_process(ShmConnection& c) {
    if (!std::exchange(c.is_cut_off, false) || !c.far_process.kill()) return false;
    log(LogLevel::kWarning,
        "shm: {} was replaced, and may still write into memory of this process: it has not "
        "confirmed "
        "the end of its connection within {} ms, and was ended (SIGKILL)",
        c.peer_name(), device_.options().cut_off_timeout_ns / kMillisecond);
    connections_.set_state(c, c.state, clock_.now_ns() + device_.options().close_timeout_ns);
    return true;
}

/// The peer has ended. What it sent before is still delivered.
void ShmEndpoint::begin_draining(ShmConnection& connection) {
    unwatch_peer(connection);
    connection.peer_ended = true;
    enter(connection, State::kDraining);
}

void ShmEndpoint::unwatch_peer(const ShmConnection& connection) {
    watcher_.forget(connection.socket.get());
    const int process = connection.far_process.descriptor();
    bool is_last = process >= 0;
    connections_.for_each([&](const ShmConnection& other) {
        const bool watches = other.state == State::kOpen || other.state == State::kClosing;
        if (&other != &connection && watches && other.far_process.descriptor() == process)
            is_last = false;
    });
    if (is_last) watcher_.forget(process);
}

/// Removes a connection. What its completions point to stays until the next poll().
void ShmEndpoint::finish(ShmConnection& connection, Errc status) {
    if (!connection.is_unproven()) {
        Completion completion;
        completion.event = Event::kClosed;
        completion.status = status;
        completion.connection = connection.id;
        completion.memory_in_doubt = connection.memory_in_doubt;
        completion.peer_ended = connection.peer_ended;
        own_.push(completion);
    }
    if (connection.has_channel()) {
        release_peer_memory(connection);
        rings_.remove(connection);
    }
    if (connection.socket) {
        unwatch_peer(connection);
        // Not only close(): the peer must see the end even if a forked child holds a copy.
        shutdown(connection.socket.get(), SHUT_RDWR);
    }
    if (connection.memory) released_memory_.push_back(std::move(connection.memory));
    if (connection.link != nullptr) released_links_.push_back(std::move(connection.link));
    connection.peer_regions.move_mappings(released_memory_);
    enter(connection, State::kGone);
    connections_.remove(connection);
}

}  // namespace weir::transport::shm

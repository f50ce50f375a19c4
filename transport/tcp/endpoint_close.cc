// SPDX-License-Identifier: Apache-2.0
/// \file
/// TcpEndpoint: how connections end. In an orderly end everything posted completes, and each side
/// then sends a Bye behind all that it has sent. A side answers until it has the peer's Bye: what
/// the peer has open completes, too. The socket is closed when both Byes are there.

#include <array>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "transport/net/own_address.h"
#include "transport/tcp/endpoint.h"
#include "transport/tcp/limits.h"

namespace weir::transport::tcp {

void TcpEndpoint::enter(TcpConnection& c, State state) {
    c.state = state;
    if (c.side == Side::kAccepting) {
        if (state == State::kJoining) acceptor_.prove(c.id);
        if (!c.is_coming()) acceptor_.leave(c.id);
    }
    uint64_t limit_ns = 0;  // none
    switch (state) {
        case State::kMeeting:
            if (c.deadline_ns != 0) return;  // that of kDialing goes on
            [[fallthrough]];
        case State::kDialing: limit_ns = device_.options().handshake_ms_max * kMillisecond; break;
        case State::kJoining:
        case State::kParting: return;  // they keep the deadline of the state before
        case State::kOpen: break;
        case State::kFinishing: limit_ns = kCloseNs; break;
        case State::kEnded: ended_.push_back(c.id); break;
    }
    if (c.deadline_ns != 0) --deadlines_;
    c.deadline_ns = limit_ns == 0 ? 0 : device_.clock().now_ns() + limit_ns;
    if (c.deadline_ns != 0) ++deadlines_;
}

void TcpEndpoint::close(ConnectionId connection) {
    TcpConnection* const c = find(connection);
    if (c == nullptr || c->state == State::kEnded) return;
    if (c->is_coming()) {
        end(*c, Errc::kOk);
    } else if (c->state == State::kOpen) {
        enter(*c, State::kFinishing);
        advance_close(*c);
    }
}

void TcpEndpoint::advance_close(TcpConnection& c) {
    if (c.state == State::kFinishing && c.operations.empty()) {
        c.output.add(Frame{FrameType::kBye, 0, {}});
        enter(c, State::kParting);
        flush_later(c);
    }
    if (c.state == State::kParting && c.output.empty() && (c.peer_bye || hurry_)) {
        end(c, Errc::kOk);
    }
}

void TcpEndpoint::take_bye(TcpConnection& c) {
    c.peer_bye = true;
    c.peer_ended = true;
    if (c.state == State::kOpen) enter(c, State::kFinishing);
    advance_close(c);
}

/// The peer has closed the connection, or it broke.
void TcpEndpoint::take_end(TcpConnection& c) {
    if (c.state == State::kParting || c.peer_bye) {
        end(c, Errc::kOk);  // the peer needed nothing more
    } else {
        fail(c, Errc::kPeerLost,
             "the process or its host ended, or the network broke, before the connection was "
             "closed");
    }
}

void TcpEndpoint::fail(TcpConnection& c, Errc reason, std::string_view why) {
    if (c.state == State::kEnded) return;
    const std::string line = fmt::format("tcp: the connection with {} ends: {}", c.peer_name, why);
    if (c.is_unproven() || c.state == State::kDialing) {  // who dials may do so again and again
        acceptor_.log_unproven(why, line);
    } else {
        log(LogLevel::kWarning, "{}", line);
    }
    end(c, reason);
}

void TcpEndpoint::end(TcpConnection& c, Errc reason) {
    if (c.state == State::kEnded) return;
    c.reason = reason;
    if (c.is_coming() && c.state != State::kDialing) {
        static_cast<void>(c.socket.send(c.handshake.output()));  // perhaps a refusal
    }
    if (c.socket.fd() >= 0) watcher_.forget(c.socket.fd());
    if (reason == Errc::kOk || c.is_coming()) {
        c.socket.close();
    } else {
        c.socket.reset();  // nobody must take it for the end of this process
    }
    enter(c, State::kEnded);
}

/// Ends what is open of connections that ended. Messages that the caller may still read lie in
/// their input, so those connections wait for the next poll.
void TcpEndpoint::release_ended() {
    for (const ConnectionId id : std::exchange(ended_, {})) {
        TcpConnection& c = *find(id);
        if (c.is_lent) {
            ended_.push_back(id);
            continue;
        }
        while (!c.operations.empty()) {
            const Operation open = c.operations.pop();
            add_completion(c, open.event,
                           c.reason == Errc::kOk ? Errc::kCancelled : Errc::kPeerLost,
                           open.context);
        }
        if (c.is_known_to_caller) {
            add_completion(c, Event::kClosed, c.reason);
            delivery_.back().peer_ended = c.peer_ended;
        }
        if (c.is_in_flush_list) std::erase(flush_list_, &c);
        connections_.erase(id);
        acceptor_.note_room();
    }
}

void TcpEndpoint::check_deadlines() {
    const bool paused = acceptor_.pause_ends_ns() != Listener::kUntilResumedNs;
    if (deadlines_ == 0 && !paused) return;
    const uint64_t now_ns = device_.clock().now_ns();
    if (paused) acceptor_.check_pause(now_ns);
    if (deadlines_ == 0) return;
    for (const auto& [id, connection] : connections_) {
        TcpConnection& c = *connection;
        if (c.deadline_ns == 0 || c.deadline_ns > now_ns) continue;
        if (c.is_coming()) {
            if (c.side == Side::kAccepting) ++counters_.refused;
            fail(c, Errc::kDeadline,
                 c.state == State::kDialing
                     ? fmt::format("it did not answer in time; {}", kBindAdvice)
                     : std::string("the handshake took longer than it may; see whether the other "
                                   "process is overloaded or stopped"));
        } else {
            take_end(c);
        }
    }
}

/// What was posted still arrives, and every peer gets a Bye, if all of that takes no longer than
/// kHurryNs.
void TcpEndpoint::close_everything() noexcept {
    hurry_ = true;
    for (const auto& [id, connection] : connections_) {
        close(id);
        advance_close(*connection);
    }
    const SteadyClock clock;
    const uint64_t end_ns = clock.now_ns() + kHurryNs;
    std::array<Completion, 64> ignored;
    while (!connections_.empty() && clock.now_ns() < end_ns)
        static_cast<void>(poll(ignored));
}

}  // namespace weir::transport::tcp

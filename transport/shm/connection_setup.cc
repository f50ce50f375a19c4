// SPDX-License-Identifier: Apache-2.0
/// \file
/// ConnectionSetup: the connections that this side begins. connection_accept.cc takes those that
/// peers begin.
#include "transport/shm/connection_setup.h"

#include <cerrno>

#include <fmt/core.h>
#include <unistd.h>

#include "lib/base/log.h"
#include "transport/shm/address.h"

namespace weir::transport::shm {

namespace {

Terms terms_of(const EndpointOptions& options, bool membarrier) {
    return {options.message_bytes_max, options.messages_in_flight, membarrier ? 1U : 0U};
}

}  // namespace

ConnectionSetup::ConnectionSetup(const Surroundings& around, const EndpointOptions& options,
                                 std::string name, Listener listener,
                                 std::shared_ptr<const Doorbell> bell)
    : device_(around.device),
      options_(options),
      name_(std::move(name)),
      listener_(std::move(listener)),
      watcher_(around.watcher),
      bell_(std::move(bell)),
      connections_(around.connections),
      rings_(around.rings),
      clock_(around.clock),
      host_(around.host),
      self_{device_.options().secret, terms_of(options, device_.has_membarrier()),
            device_.regions().live_page_fd()},
      offers_(std::make_shared<LinkOffers>(options, bell_)),
      places_(clock_, device_.options().handshakes_max, device_.options().handshake_timeout_ns) {
    device_.hub().add(name_, offers_);
}

ConnectionSetup::~ConnectionSetup() {
    device_.hub().remove(name_);
    for (const auto& link : offers_->close()) {
        RingWriter out = Channel(link->memory.bytes(), link->shape, Side::kAccepting).out;
        out.put_close(0);
        out.publish();
        link->connecting_bell->ring();
    }
}

std::string ConnectionSetup::address() const {
    return make_address(device_.host(), name_);
}

Result<ConnectionId> ConnectionSetup::connect(std::string_view address) {
    WEIR_ASSIGN(std::string target, parse_address(address, device_.host()));
    if (connections_.count() >= options_.connections_max) {
        return Error(Errc::kBusy,
                     fmt::format("shm: this endpoint has {} connections, its limit; close some, or "
                                 "raise EndpointOptions::connections_max",
                                 connections_.count()));
    }
    ShmConnection& c = connections_.add(Side::kConnecting);
    host_.enter(c, State::kDialing);
    const ConnectionId id = c.id;
    c.target = std::move(target);
    const auto offers = device_.hub().find(c.target);
    if (offers != nullptr) {
        offer(c, *offers);
    } else {
        dial(c);
    }
    return id;
}

/// Connects to an endpoint of this device.
void ConnectionSetup::offer(ShmConnection& c, LinkOffers& to) {
    auto link = std::make_shared<DirectLink>();
    link->shape = shape_for(options_, to.options());
    auto memory = make_private(link->shape.total_bytes(), "the rings of a connection");
    if (!memory) {
        host_.refuse(c, memory.error());
        return;
    }
    link->memory = std::move(memory).value();
    link->connecting_bell = bell_;
    link->accepting_bell = to.bell();
    c.link = link;
    c.channel = Channel(link->memory.bytes(), link->shape, Side::kConnecting);
    c.asymmetric = device_.has_membarrier();
    host_.enter(c, State::kOffered);
    rings_.add(c);
    if (!to.offer(std::move(link))) host_.finish(c, Errc::kPeerLost);
}

void ConnectionSetup::dial(ShmConnection& c) {
    auto socket = dial_abstract(c.target);
    if (!socket) {
        c.peer_ended = socket.error().os_error() == ECONNREFUSED;  // nobody listens there any more
        host_.finish(c, socket.code());
        return;
    }
    if (!*socket) return;  // the listener's queue is full: check_deadlines() tries again
    c.socket = std::move(socket).value();
    host_.enter(c, State::kShaking);
    c.handshake = std::make_unique<ChannelHandshake>(self_, Side::kConnecting);
    auto peer = peer_identity(c.socket.get());
    if (!peer || peer->uid != geteuid()) {
        host_.refuse(c, Error(Errc::kRefused, "the process there belongs to another user"));
        return;
    }
    c.peer = *peer;
    if (auto begun = c.handshake->begin(c.socket.get()); !begun) {
        host_.finish(c, begun.code());
        return;
    }
    if (!watcher_.watch(c.socket.get(), c.id, Watcher::For::kInput)) host_.finish(c, Errc::kIo);
}

/// The peer's endpoint has no place for us now. If it is gone, the next dial() reports that.
void ConnectionSetup::dial_again(ShmConnection& c) {
    log(LogLevel::kDebug, "shm: {} has no place for a connection now; it is tried again",
        c.peer_name());
    watcher_.forget(c.socket.get());
    c.socket.reset();
    c.handshake.reset();
    host_.enter(c, State::kDialing);
}

void ConnectionSetup::check_deadlines(uint64_t now_ns) {
    if (listener_.pause_ends_ns() <= now_ns) listener_.resume();
    if (connections_.coming() == 0) return;
    connections_.for_each([&](ShmConnection& c) {
        if (!c.comes_into_being()) return;
        if (now_ns > c.deadline_ns) {
            host_.refuse(c,
                         Error(Errc::kDeadline,
                               fmt::format("the handshake took longer than {} ms; see whether "
                                           "the other process is overloaded or stopped",
                                           device_.options().handshake_timeout_ns / kMillisecond)));
        } else if (c.state == State::kDialing) {
            dial(c);
        }
    });
}

void ConnectionSetup::advance(ShmConnection& c) {
    auto done = c.handshake->advance(c.socket.get());
    if (!done) {
        host_.refuse(c, done.error());
        return;
    }
    if (*done == Progress::kWaiting) return;
    if (*done == Progress::kLater) {
        dial_again(c);
        return;
    }
    Agreement agreement = c.handshake->take_agreement();
    c.handshake.reset();
    c.memory = std::move(agreement.memory);
    c.channel = agreement.channel;
    c.asymmetric = agreement.asymmetric;
    c.peer_regions = PeerRegions(std::move(agreement.live_page), PeerLimits{});
    host_.enter(c, State::kOpen);
    // A peer that has ended is not seen on its socket while a child that it forked holds a copy:
    // watch the process itself, too.
    c.far_process = device_.far_processes().find(c.peer.pid, c.socket.get());
    if (c.far_process.opened()) {
        const int process = c.far_process.descriptor();
        static_cast<void>(watcher_.watch(process, static_cast<uint64_t>(process) | kWatchProcess,
                                         Watcher::For::kInput));
    }
    host_.open(c);
}

}  // namespace weir::transport::shm

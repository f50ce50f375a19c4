// SPDX-License-Identifier: Apache-2.0
/// \file
/// ShmEndpoint: sets connections up. This happens when poll() looks at the sockets, not on the
/// data path. endpoint_accept.cc takes the connections that peers begin.
#include <algorithm>
#include <array>
#include <cerrno>

#include <fmt/core.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "lib/base/log.h"
#include "transport/shm/address.h"
#include "transport/shm/endpoint.h"

namespace weir::transport::shm {

namespace {

constexpr int kEventsPerLook = 64;
/// How many looks pass between two searches for mapped memory that its owner has deregistered.
constexpr uint64_t kLooksPerSweep = 64;

Terms terms_of(const EndpointOptions& options, bool membarrier) {
    return {options.message_bytes_max, options.messages_in_flight, membarrier ? 1U : 0U};
}

}  // namespace

bool ShmEndpoint::Descriptors::watch(int fd, uint64_t tag) const {
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.u64 = tag;
    return epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

Result<std::unique_ptr<Endpoint>> ShmEndpoint::make(ShmDevice& device,
                                                    const EndpointOptions& options) {
    const std::string name = random_name();
    Descriptors descriptors;
    WEIR_ASSIGN(descriptors.listener, listen_abstract(name));
    WEIR_ASSIGN(Doorbell bell, Doorbell::make());
    descriptors.bell = std::make_shared<const Doorbell>(std::move(bell));
    descriptors.epoll = Descriptor(epoll_create1(EPOLL_CLOEXEC));
    descriptors.timer = Descriptor(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (!descriptors.epoll || !descriptors.timer ||
        !descriptors.watch(descriptors.listener.get(), kListenerTag) ||
        !descriptors.watch(descriptors.bell->fd(), kBellTag) ||
        !descriptors.watch(descriptors.timer.get(), kTimerTag)) {
        return Error(Errc::kIo, "shm: no descriptors for an endpoint (see ulimit -n)", errno);
    }
    std::unique_ptr<ShmEndpoint> endpoint(
        new ShmEndpoint(device, clamp(options), name, std::move(descriptors)));
    device.hub().add(name, endpoint->mailbox_);
    return std::unique_ptr<Endpoint>(std::move(endpoint));
}

ShmEndpoint::ShmEndpoint(ShmDevice& device, const EndpointOptions& options, std::string name,
                         Descriptors descriptors)
    : device_(device),
      options_(options),
      name_(std::move(name)),
      descriptors_(std::move(descriptors)),
      mailbox_(std::make_shared<Mailbox>(options_, descriptors_.bell)),
      reader_(device.quiescence().join()),
      self_{device.options().secret, terms_of(options_, device.has_membarrier()),
            device.regions().live_page_fd()} {}

ShmEndpoint::~ShmEndpoint() {
    device_.hub().remove(name_);
    for (const auto& link : mailbox_->close()) {
        RingWriter out = Channel(link->memory.bytes(), link->shape, Side::kAccepting).out;
        out.put_close(0);
        out.publish();
        link->connecting_bell->ring();
    }
    for (const auto& slot : slots_) {
        if (slot == nullptr || !slot->has_channel()) continue;
        say_goodbye(*slot);
        let_go(*slot);
    }
    device_.quiescence().part(reader_);
}

std::string ShmEndpoint::address() const {
    return make_address(device_.host(), name_);
}

Result<ConnectionId> ShmEndpoint::connect(std::string_view address) {
    WEIR_ASSIGN(std::string target, parse_address(address, device_.host()));
    if (connections_ >= options_.connections_max) {
        return Error(Errc::kBusy,
                     fmt::format("shm: this endpoint has {} connections, its limit", connections_));
    }
    Connection& connection = add_connection(Side::kConnecting, State::kDialing);
    const ConnectionId id = connection.id;
    connection.target = std::move(target);
    const auto mailbox = device_.hub().find(connection.target);
    if (mailbox != nullptr) {
        offer(connection, *mailbox);
    } else {
        dial(connection);
    }
    return id;
}

Connection& ShmEndpoint::add_connection(Side side, State state) {
    if (free_slots_.empty()) {
        free_slots_.push_back(static_cast<uint32_t>(slots_.size()));
        slots_.emplace_back();
    }
    const uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    slots_[slot] = std::make_unique<Connection>();
    Connection& connection = *slots_[slot];
    connection.id = ++serial_ << kSlotBits | slot;
    connection.side = side;
    ++connections_;
    enter(connection, state);
    look_in_ = std::min(look_in_, 1U);
    return connection;
}

/// Connects to an endpoint of this device.
void ShmEndpoint::offer(Connection& connection, Mailbox& mailbox) {
    auto link = std::make_shared<DirectLink>();
    link->shape = shape_for(options_, mailbox.options());
    auto memory = make_private(link->shape.total_bytes(), "the rings of a connection");
    if (!memory) {
        refuse(connection, memory.error());
        return;
    }
    link->memory = std::move(memory).value();
    link->connecting_bell = descriptors_.bell;
    link->accepting_bell = mailbox.bell();
    connection.link = link;
    connection.channel = Channel(link->memory.bytes(), link->shape, Side::kConnecting);
    connection.asymmetric = device_.has_membarrier();
    enter(connection, State::kOffered);
    watch(connection);
    if (!mailbox.offer(std::move(link))) finish(connection, Errc::kPeerLost);
}

void ShmEndpoint::dial(Connection& connection) {
    auto socket = dial_abstract(connection.target);
    if (!socket) {
        finish(connection, socket.code());
        return;
    }
    if (!*socket) return;  // the listener's queue is full: try again at the next look
    connection.socket = std::move(socket).value();
    enter(connection, State::kShaking);
    connection.handshake = std::make_unique<ChannelHandshake>(self_, Side::kConnecting);
    auto peer = peer_identity(connection.socket.get());
    if (!peer || peer->uid != geteuid()) {
        refuse(connection, Error(Errc::kRefused, "it belongs to another user"));
        return;
    }
    connection.peer = *peer;
    if (auto begun = connection.handshake->begin(connection.socket.get()); !begun) {
        finish(connection, begun.code());
        return;
    }
    if (!descriptors_.watch(connection.socket.get(), connection.id)) {
        finish(connection, Errc::kIo);
    }
}

/// The peer's endpoint has no place for us now. If it is gone, the next dial() reports that.
void ShmEndpoint::dial_again(Connection& connection) {
    log(LogLevel::kDebug, "shm: {} has no place for a connection now; it is tried again",
        peer_name(connection.id));
    epoll_ctl(descriptors_.epoll.get(), EPOLL_CTL_DEL, connection.socket.get(), nullptr);
    connection.socket.reset();
    connection.handshake.reset();
    enter(connection, State::kDialing);
}

void ShmEndpoint::look() {
    std::array<epoll_event, kEventsPerLook> events;
    const int count = epoll_wait(descriptors_.epoll.get(), events.data(), kEventsPerLook, 0);
    for (int i = 0; i < count; ++i)
        look_at(events[static_cast<size_t>(i)].data.u64);
    if (coming_ > 0 || listen_again_ns_ != 0) check_deadlines();
    strangers_log_.look();
    if (!closing_.empty()) check_closing();
    if (++looks_ % kLooksPerSweep != 0) return;
    for (const Watch& one : watched_) {
        one.connection->peer_regions.sweep();
        retired_ = retired_ || one.connection->peer_regions.has_retired();
    }
}

void ShmEndpoint::look_at(uint64_t tag) {
    switch (tag) {
        case kListenerTag: accept_sockets(); return;
        case kBellTag:
            descriptors_.bell->drain();
            accept_links();
            return;
        case kTimerTag: {
            uint64_t expirations = 0;
            static_cast<void>(!::read(descriptors_.timer.get(), &expirations, sizeof(expirations)));
            return;
        }
        default: break;
    }
    const ConnectionId id = tag & ~kProcessTag;
    Connection* connection = find(id);
    if (connection == nullptr) return;
    if (connection->state == State::kClosing) {
        if (id != tag) return finish(*connection, connection->end_status);
        return discard_packets(*connection);
    }
    if (id != tag) {
        if (connection->state == State::kOpen) drain_socket(*connection);
        connection = find_open(id);
        if (connection != nullptr) begin_draining(*connection);
        return;
    }
    if (connection->state == State::kShaking) {
        shake(*connection);
    } else if (connection->state == State::kOpen) {
        drain_socket(*connection);
    }
}

void ShmEndpoint::check_deadlines() {
    const uint64_t now_ns = clock_.now_ns();
    for (size_t slot = 0; slot < slots_.size() && coming_ > 0; ++slot) {
        Connection* const connection = slots_[slot].get();
        if (connection == nullptr || !connection->comes_into_being()) continue;
        if (now_ns > connection->deadline_ns) {
            if (connection->state == State::kOffered) say_goodbye(*connection);
            refuse(*connection, Error(Errc::kDeadline, "the handshake took too long"));
        } else if (connection->state == State::kDialing) {
            dial(*connection);
        }
    }
    if (now_ns >= listen_again_ns_) listen_again();
}

void ShmEndpoint::shake(Connection& connection) {
    auto done = connection.handshake->advance(connection.socket.get());
    if (!done) {
        refuse(connection, done.error());
        return;
    }
    if (*done == Progress::kWaiting) return;
    if (*done == Progress::kLater) {
        dial_again(connection);
        return;
    }
    Agreement agreement = connection.handshake->take_agreement();
    connection.handshake.reset();
    connection.memory = std::move(agreement.memory);
    connection.channel = agreement.channel;
    connection.asymmetric = agreement.asymmetric;
    connection.peer_regions =
        PeerRegions(std::move(agreement.live_page),
                    {device_.options().peer_regions_max, device_.options().peer_mapped_bytes_max});
    enter(connection, State::kOpen);
    // A peer that has ended is not seen on its socket while a child that it forked holds a copy:
    // watch the process itself, too.
    connection.far_process = FarProcess(connection.peer.pid, connection.socket.get());
    if (connection.far_process.opened()) {
        static_cast<void>(
            descriptors_.watch(connection.far_process.descriptor(), connection.id | kProcessTag));
    }
    opened(connection);
}

void ShmEndpoint::opened(Connection& connection) {
    watch(connection);
    Completion completion;
    completion.event = connection.side == Side::kConnecting ? Event::kConnected : Event::kAccepted;
    completion.connection = connection.id;
    local_.push(completion);
}

void ShmEndpoint::watch(Connection& connection) {
    connection.watch_index = watched_.size();
    watched_.push_back({connection.channel.in.watched(), &connection});
}

}  // namespace weir::transport::shm

// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/endpoint.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "transport/verbs/endpoint_limits.h"
#include "transport/verbs/verbs.h"

namespace weir::transport::verbs {

namespace {

Error cannot_make(const char* what, int code) {
    return {Errc::kIo, fmt::format("cannot make {} for an endpoint", what), code};
}

}  // namespace

Result<std::unique_ptr<VerbsEndpoint>> VerbsEndpoint::make(VerbsDevice& device,
                                                           const EndpointOptions& options,
                                                           const SocketAddress& address) {
    std::unique_ptr<VerbsEndpoint> endpoint(new VerbsEndpoint(device));
    WEIR_TRY(endpoint->set_up(options, address));
    return endpoint;
}

Status VerbsEndpoint::set_up(const EndpointOptions& options, const SocketAddress& address) {
    options_ = options;
    options_.message_bytes_max =
        std::clamp(options.message_bytes_max, kMessageBytesMin, kMessageBytesMost);
    options_.messages_in_flight =
        std::clamp(options.messages_in_flight, Credits::kWindowMin, kMessagesInFlightMost);
    options_.connections_max = std::clamp(options.connections_max, 1U, kConnectionsMost);
    device_.add_mailbox(this, &mailbox_);
    WEIR_TRY(make_queues());
    return make_listener(address);
}

Status VerbsEndpoint::make_queues() {
    const Hardware& hardware = device_.hardware();
    const auto cq_entries_max = static_cast<uint32_t>(hardware.limits.max_cqe);
    const auto places_most = static_cast<uint32_t>(std::min<uint64_t>(
        {kReceivesMost, static_cast<uint64_t>(hardware.limits.max_srq_wr), cq_entries_max / 2}));
    const uint64_t receives_wanted =
        uint64_t{options_.messages_in_flight} * options_.connections_max;
    const auto receives = static_cast<uint32_t>(
        std::min<uint64_t>(receives_wanted, ReceiveQueue::windows_of(places_most)));
    const uint32_t places = std::min(receives + ReceiveQueue::kBeyondWindows, places_most);
    const uint64_t sends_wanted =
        uint64_t{send_depth(options_, hardware)} * options_.connections_max;
    const auto entries = static_cast<uint32_t>(
        std::min<uint64_t>(places + std::min<uint64_t>(sends_wanted, kSendsMost), cq_entries_max));
    capacity_.emplace(receives, entries - places);

    channel_.reset(ibv_create_comp_channel(hardware.context.get()));
    if (channel_ == nullptr) return cannot_make("a completion channel", errno);
    const int flags = ::fcntl(channel_->fd, F_GETFL);
    if (flags < 0 || ::fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        return cannot_make("a non-blocking completion channel", errno);
    }
    cq_.reset(
        ibv_create_cq(hardware.context.get(), static_cast<int>(entries), this, channel_.get(), 0));
    if (cq_ == nullptr) {
        return Error(Errc::kNoMemory,
                     fmt::format("cannot make a completion queue of {} entries", entries), errno);
    }
    WEIR_ASSIGN(receives_,
                ReceiveQueue::make(hardware.pd.get(), this, places, options_.message_bytes_max));
    return {};
}

Status VerbsEndpoint::make_listener(const SocketAddress& address) {
    epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
    timer_ = Descriptor(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (!epoll_ || !timer_ || mailbox_.fd() < 0) return cannot_make("descriptors", errno);
    WEIR_ASSIGN(listener_, listen_on(address));

    SocketAddress reachable = SocketAddress::own(listener_.get());
    if (reachable.is_any()) {
        SocketAddress host = device_.hardware().local;
        if (host.family() == 0) {
            return Error(Errc::kInvalidArgument,
                         fmt::format("cannot tell which address of this host others reach: bind to "
                                     "one instead of {}",
                                     address.host()));
        }
        host.set_port(reachable.port());
        reachable = host;
    }
    address_ = std::string(kScheme) + reachable.text();

    struct Watched {
        int fd;
        uint64_t what;
    };

    for (const Watched watched :
         {Watched{listener_.get(), kWatchListener}, Watched{channel_->fd, kWatchCompletions},
          Watched{device_.async_fd(), kWatchDevice}, Watched{mailbox_.fd(), kWatchMailbox},
          Watched{timer_.get(), kWatchTimer}}) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.u64 = watched.what;
        if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, watched.fd, &event) != 0) {
            return cannot_make("a set of watched descriptors", errno);
        }
    }
    return {};
}

VerbsEndpoint::~VerbsEndpoint() {
    close_everything();
    device_.remove_mailbox(this);
}

Capabilities VerbsEndpoint::capabilities() const {
    Capabilities can;
    can.maps_memory = false;
    can.reaches_other_hosts = true;
    can.message_bytes_max = options_.message_bytes_max;
    can.operations_max = kOperationsMost;
    return can;
}

Connection& VerbsEndpoint::add_connection(Side side) {
    if (free_slots_.empty()) {
        WEIR_CHECK(slots_.size() <= 0xffff);
        free_slots_.push_back(static_cast<uint16_t>(slots_.size()));
        slots_.emplace_back();
    }
    const uint16_t slot = free_slots_.back();
    free_slots_.pop_back();
    const ConnectionId id = ++last_serial_ << 16 | slot;
    slots_[slot] = std::make_unique<Connection>(id, side, device_.options().secret, random_bytes());
    ++connection_count_;
    return *slots_[slot];
}

Connection* VerbsEndpoint::find(ConnectionId id) const noexcept {
    const auto slot = static_cast<size_t>(id & 0xffff);
    if (slot >= slots_.size()) return nullptr;
    Connection* const c = slots_[slot].get();
    return c != nullptr && c->id == id ? c : nullptr;
}

Connection* VerbsEndpoint::find_open(ConnectionId id) const noexcept {
    Connection* const c = find(id);
    return c != nullptr && c->state == Connection::State::kOpen ? c : nullptr;
}

Connection* VerbsEndpoint::find_queue_pair(uint32_t number) const noexcept {
    if (last_found_ != nullptr && last_found_->qp->qp_num == number) return last_found_;
    const auto found = queue_pairs_.find(number);
    if (found == queue_pairs_.end()) return nullptr;
    last_found_ = found->second;
    return last_found_;
}

std::string VerbsEndpoint::peer_name(ConnectionId connection) const {
    const Connection* const c = find(connection);
    return c != nullptr ? c->peer_name : "closed connection";
}

uint64_t message_buffer_bytes(const EndpointOptions& options) noexcept {
    EndpointOptions clamped = options;
    clamped.message_bytes_max =
        std::clamp(options.message_bytes_max, kMessageBytesMin, kMessageBytesMost);
    return uint64_t{clamped.messages_in_flight} *
               ReceiveQueue::stride_bytes(clamped.message_bytes_max) +
           send_ring_bytes(clamped);
}

}  // namespace weir::transport::verbs

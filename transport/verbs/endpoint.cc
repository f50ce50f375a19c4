// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/endpoint.h"

#include <algorithm>

#include <fmt/core.h>

#include "transport/address_parts.h"
#include "transport/verbs/endpoint_limits.h"

namespace weir::transport::verbs {

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
    device_.subscribe(this, &notes_);
    WEIR_ASSIGN(supplies_, Supplies::make(device_.hardware(), this, options_));
    WEIR_ASSIGN(watcher_, Watcher::make(kWatchAlarm));
    WEIR_TRY(watcher_->watch(supplies_->channel()->fd, kWatchCompletions, Watcher::For::kInput));
    WEIR_TRY(watcher_->watch(device_.async_fd(), kWatchDevice, Watcher::For::kInput));
    WEIR_TRY(watcher_->watch(notes_.fd(), kWatchNotes, Watcher::For::kInput));
    MeetingHost& host = *this;
    meeting_.emplace(device_, options_, *watcher_, *supplies_, connections_, counters_, host);
    return meeting_->listen(address);
}

VerbsEndpoint::~VerbsEndpoint() {
    close_everything();
    device_.unsubscribe(this);
}

Capabilities VerbsEndpoint::capabilities() const {
    Capabilities can;
    can.maps_memory = false;
    can.reaches_other_hosts = true;
    can.message_bytes_max = options_.message_bytes_max;
    can.operations_max = kOperationsMost;
    return can;
}

Result<ConnectionId> VerbsEndpoint::connect(std::string_view any_address) {
    const std::string_view address = part_of_scheme(any_address, kScheme);
    if (!address.starts_with(kScheme)) {
        return wrong_scheme(address, kScheme);
    }
    WEIR_ASSIGN(const SocketAddress to, SocketAddress::parse(address.substr(kScheme.size())));
    if (connections_.count() >= options_.connections_max) {
        return Error(
            Errc::kBusy,
            fmt::format("verbs: this endpoint has {} connections, its limit; close some, or "
                        "raise EndpointOptions::connections_max",
                        connections_.count()));
    }
    return meeting_->begin(to).id;
}

void VerbsEndpoint::open(VerbsConnection& c) {
    enter(c, State::kOpen);
    c.is_known_to_caller = true;
    Completion completion;
    completion.event = c.side == Side::kConnecting ? Event::kConnected : Event::kAccepted;
    completion.connection = c.id;
    delivery_.add(completion);
}

std::string VerbsEndpoint::peer_name(ConnectionId connection) const {
    const VerbsConnection* const c = connections_.find(connection);
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

// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/endpoint.h"

#include <algorithm>

#include <fmt/core.h>

#include "transport/verbs/endpoint_limits.h"
#include "transport/verbs/verbs.h"

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
    cm_.emplace(device_, *watcher_, kWatchCm);
    WEIR_ASSIGN(listener_, Listener::make(address, *watcher_, kWatchListener));

    SocketAddress reachable = listener_->address();
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
    return watch_everything();
}

Status VerbsEndpoint::watch_everything() {
    WEIR_TRY(watcher_->watch(supplies_->channel()->fd, kWatchCompletions, Watcher::For::kInput));
    WEIR_TRY(watcher_->watch(device_.async_fd(), kWatchDevice, Watcher::For::kInput));
    return watcher_->watch(notes_.fd(), kWatchNotes, Watcher::For::kInput);
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

std::string VerbsEndpoint::peer_name(ConnectionId connection) const {
    const Connection* const c = connections_.find(connection);
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

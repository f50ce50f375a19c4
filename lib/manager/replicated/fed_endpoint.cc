// SPDX-License-Identifier: Apache-2.0
#include "lib/manager/replicated/fed_endpoint.h"

#include <algorithm>
#include <utility>

namespace weir {

using transport::Completion;
using transport::Event;
using transport::Post;

void FedEndpoint::feed(std::vector<ManagerEvent> events) {
    for (ManagerEvent& event : events) {
        const bool is_open = open_.contains(event.connection);
        if (is_open == (event.event == Event::kAccepted)) continue;
        if (event.event == Event::kAccepted) open_.insert(event.connection);
        if (event.event == Event::kClosed) open_.erase(event.connection);
        events_.push_back(std::move(event));
    }
}

void FedEndpoint::break_all(uint32_t message_bytes_max) {
    uint32_t& bytes_max = capabilities_.message_bytes_max;
    bytes_max = bytes_max == 0 ? message_bytes_max : std::min(bytes_max, message_bytes_max);
    for (const ConnectionId connection : std::exchange(open_, {})) {
        ManagerEvent closed;
        closed.connection = connection;
        events_.push_back(std::move(closed));
    }
}

void FedEndpoint::close(ConnectionId connection) {
    if (open_.erase(connection) == 0) return;
    connections_.close(connection);
    std::erase_if(events_,
                  [&](const ManagerEvent& event) { return event.connection == connection; });
    ManagerEvent closed;
    closed.connection = connection;
    events_.push_back(std::move(closed));
}

Post FedEndpoint::send(ConnectionId connection, Parts parts) {
    if (!open_.contains(connection)) return Post::kClosed;
    size_t bytes = 0;
    for (const auto part : parts)
        bytes += part.size();
    if (bytes > capabilities_.message_bytes_max) return Post::kInvalid;
    connections_.send(connection, parts);
    return Post::kPosted;
}

size_t FedEndpoint::poll(std::span<Completion> completions) {
    shown_.clear();
    const size_t count = std::min(completions.size(), events_.size());
    for (size_t i = 0; i < count; ++i) {
        shown_.push_back(std::move(events_.front()));
        events_.pop_front();
    }
    for (size_t i = 0; i < count; ++i) {
        Completion completion;
        completion.event = shown_[i].event;
        completion.connection = shown_[i].connection;
        completion.peer_ended = shown_[i].peer_ended;
        completion.message = shown_[i].message;
        completions[i] = completion;
    }
    return count;
}

// A manager connects to nobody, and moves no memory.

Result<transport::ConnectionId> FedEndpoint::connect(std::string_view /*address*/) {
    return Error(Errc::kUnavailable, "a manager connects to nobody");
}

Result<transport::RemoteSpan> FedEndpoint::expose(ConnectionId /*connection*/,
                                                  std::span<const std::byte> /*memory*/) {
    return Error(Errc::kUnavailable, "a manager moves no memory");
}

Post FedEndpoint::read(ConnectionId /*connection*/, std::span<std::byte> /*into*/,
                       const transport::RemoteSpan& /*from*/, uint64_t /*context*/) {
    return Post::kInvalid;
}

Post FedEndpoint::write(ConnectionId /*connection*/, std::span<const std::byte> /*from*/,
                        const transport::RemoteSpan& /*to*/, uint64_t /*context*/) {
    return Post::kInvalid;
}

Post FedEndpoint::write_immediate(ConnectionId /*connection*/, std::span<const std::byte> /*from*/,
                                  const transport::RemoteSpan& /*to*/, uint32_t /*immediate*/,
                                  uint64_t /*context*/) {
    return Post::kInvalid;
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Outbox: frames to connections that may have no room now. What cannot go out is copied and sent
/// later, in order. Bounded by what peers can have asked for: every queued frame answers a request
/// that took a credit.

#include <cstddef>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "lib/wire/frame.h"
#include "transport/transport.h"

namespace weir {

/// Thread: that of the endpoint.
class Outbox {
public:
    explicit Outbox(transport::Endpoint& endpoint) noexcept : endpoint_(endpoint) {}

    /// Sends header and body, now or later; sets header.body_bytes. To a closed connection:
    /// nothing.
    void send(transport::ConnectionId connection, wire::FrameHeader header,
              std::span<const std::byte> body = {});
    /// Tries again what had to wait. Returns how many frames went out.
    size_t flush();
    /// Forgets what waits for a connection that is gone.
    void forget(transport::ConnectionId connection);

    [[nodiscard]] bool empty() const noexcept { return waiting_.empty(); }

private:
    using Message = std::vector<std::byte>;
    transport::Endpoint& endpoint_;
    std::unordered_map<transport::ConnectionId, std::deque<Message>> waiting_;
};

}  // namespace weir

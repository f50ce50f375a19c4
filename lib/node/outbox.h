// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Outbox: frames to connections that may have no room now. What cannot go out is copied and sent
/// later, in order. A peer that asks and asks and does not take the answers would make it grow
/// without end: such a connection is closed.

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
    /// Of frames that wait for one connection: answers to tens of thousands of requests.
    static constexpr size_t kWaitingBytesMax = size_t{64} << 20;

    explicit Outbox(transport::Endpoint& endpoint,
                    size_t waiting_bytes_max = kWaitingBytesMax) noexcept
        : endpoint_(endpoint), waiting_bytes_max_(waiting_bytes_max) {}

    /// Sends header and body, now or later; sets header.body_bytes. To a closed connection:
    /// nothing. If too much waits for the connection, it is closed; its kClosed follows.
    void send(transport::ConnectionId connection, wire::FrameHeader header,
              std::span<const std::byte> body = {});
    /// Tries again what had to wait. Returns how many frames went out.
    size_t flush();
    /// Forgets what waits for a connection that is gone.
    void forget(transport::ConnectionId connection);

    [[nodiscard]] bool empty() const noexcept { return queues_.empty(); }

private:
    using Message = std::vector<std::byte>;

    struct Queue {
        std::deque<Message> messages;
        size_t bytes = 0;
    };

    /// False: there is no room now.
    [[nodiscard]] bool post(transport::ConnectionId connection,
                            std::span<const std::span<const std::byte>> parts);

    transport::Endpoint& endpoint_;
    size_t waiting_bytes_max_;
    std::unordered_map<transport::ConnectionId, Queue> queues_;
};

}  // namespace weir

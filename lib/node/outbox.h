// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Outbox: sends frames to connections that may have no room now. A frame that cannot be sent is
/// copied and sent later, in order; so are those that are to leave as one message. A peer that sends requests and does not take the replies
/// would make it grow without end: its connection is closed.

#include <cstddef>
#include <cstdint>
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
    /// Limit of the frames that wait for one connection: tens of thousands of replies.
    static constexpr size_t kWaitingBytesMax = size_t{64} << 20;

    explicit Outbox(transport::Endpoint& endpoint,
                    size_t waiting_bytes_max = kWaitingBytesMax) noexcept
        : endpoint_(endpoint), waiting_bytes_max_(waiting_bytes_max) {}

    /// Sends header and body, now or later; sets header.body_bytes. Does nothing if the
    /// connection is closed. Closes it if too many bytes wait for it; its kClosed follows.
    void send(transport::ConnectionId connection, wire::FrameHeader& header,
              std::span<const std::byte> body = {});

    void send(transport::ConnectionId connection, wire::FrameHeader&& header,
              std::span<const std::byte> body = {}) {
        send(connection, header, body);
    }

    /// Until end_message(), frames to this connection that fit into one message are put together.
    void begin_message(transport::ConnectionId connection);
    void end_message();

    /// Sends waiting frames as far as there is room. Returns the number of frames sent.
    size_t flush();
    /// Drops the frames that wait for a connection that is closed.
    void forget(transport::ConnectionId connection);

    /// Of the frames that wait for the connection.
    [[nodiscard]] size_t waiting_bytes(transport::ConnectionId connection) const {
        const auto found = queues_.find(connection);
        return found == queues_.end() ? 0 : found->second.bytes;
    }

    [[nodiscard]] bool empty() const noexcept { return queues_.empty(); }

    /// How many messages have had to wait; the number of the last one that has.
    [[nodiscard]] uint64_t waited_count() const noexcept { return waited_count_; }

    /// Whether none of those up to that number waits any more.
    [[nodiscard]] bool has_sent(uint64_t number) const noexcept;

private:
    struct Message {
        uint64_t number = 0;
        std::vector<std::byte> bytes;
    };

    struct Queue {
        std::deque<Message> messages;
        size_t bytes = 0;
    };

    /// Frames of more bytes leave alone: a copy of them costs more than a message.
    static constexpr size_t kGatheredBytesMax = 4096;

    void gather(std::span<const std::byte> head, std::span<const std::byte> body);
    void send_gathered();
    void send(transport::ConnectionId connection,
              std::span<const std::span<const std::byte>> parts);
    /// False: there is no room now.
    [[nodiscard]] bool post(transport::ConnectionId connection,
                            std::span<const std::span<const std::byte>> parts);

    transport::Endpoint& endpoint_;
    size_t waiting_bytes_max_;
    uint64_t waited_count_ = 0;
    transport::ConnectionId gathers_for_ = 0;  ///< 0: no connection
    size_t message_bytes_max_ = 0;             ///< of the endpoint; set when it first gathers
    std::vector<std::byte> gathered_;
    std::unordered_map<transport::ConnectionId, Queue> queues_;
};

}  // namespace weir

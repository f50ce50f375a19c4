// SPDX-License-Identifier: Apache-2.0
#include "lib/node/outbox.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "lib/base/check.h"
#include "lib/base/log.h"

namespace weir {

void Outbox::send(transport::ConnectionId connection, wire::FrameHeader& header,
                  std::span<const std::byte> body) {
    WEIR_CHECK(body.size() <= UINT32_MAX);
    header.body_bytes = static_cast<uint32_t>(body.size());
    const std::span<const std::byte> head = wire::bytes_of(header);
    const std::array parts{head, body};
    const bool first = queues_.empty() || !queues_.contains(connection);
    if (first && post(connection, parts)) return;
    Message message{++waited_count_, {head.begin(), head.end()}};
    message.bytes.insert(message.bytes.end(), body.begin(), body.end());
    Queue& queue = queues_[connection];
    queue.bytes += sizeof(Message) + message.bytes.size();
    queue.messages.push_back(std::move(message));
    if (queue.bytes <= waiting_bytes_max_) return;
    log(LogLevel::kWarning,
        "closing the connection to {}: it sends requests and does not take the answers; {} frames "
        "({} bytes) wait",
        endpoint_.peer_name(connection), queue.messages.size(), queue.bytes);
    queues_.erase(connection);
    endpoint_.close(connection);
}

bool Outbox::post(transport::ConnectionId connection,
                  std::span<const std::span<const std::byte>> parts) {
    switch (endpoint_.send(connection, parts)) {
        case transport::Post::kPosted:
        case transport::Post::kClosed: return true;
        case transport::Post::kNotNow: return false;
        case transport::Post::kInvalid: break;
    }
    size_t bytes = 0;
    for (const auto& part : parts)
        bytes += part.size();
    log(LogLevel::kError,
        "a frame of {} bytes to {} is not sent: the connection takes no frames of this length; "
        "this is a bug of weir",
        bytes, endpoint_.peer_name(connection));
    return true;
}

size_t Outbox::flush() {
    size_t sent = 0;
    for (auto at = queues_.begin(); at != queues_.end();) {
        auto& [messages, bytes] = at->second;
        while (!messages.empty()) {
            const std::span<const std::byte> part = messages.front().bytes;
            if (!post(at->first, std::span(&part, 1))) break;
            WEIR_CHECK(bytes >= sizeof(Message) + part.size());
            bytes -= sizeof(Message) + part.size();
            messages.pop_front();
            ++sent;
        }
        WEIR_CHECK(messages.empty() == (bytes == 0));
        at = messages.empty() ? queues_.erase(at) : std::next(at);
    }
    return sent;
}

bool Outbox::has_sent(uint64_t number) const noexcept {
    return std::ranges::all_of(
        queues_, [&](const auto& entry) { return entry.second.messages.front().number > number; });
}

void Outbox::forget(transport::ConnectionId connection) {
    queues_.erase(connection);
}

}  // namespace weir

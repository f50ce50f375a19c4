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
    if (connection == gathers_for_) [[unlikely]]
        return gather(head, body);
    send(connection, std::array{head, body});
}

void Outbox::send(transport::ConnectionId connection,
                  std::span<const std::span<const std::byte>> parts) {
    const bool first = queues_.empty() || !queues_.contains(connection);
    if (first && post(connection, parts)) return;
    Message message{++waited_count_, {}};
    for (const std::span<const std::byte> part : parts)
        message.bytes.insert(message.bytes.end(), part.begin(), part.end());
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

void Outbox::begin_message(transport::ConnectionId connection) {
    WEIR_CHECK(gathers_for_ == 0 && gathered_.empty() && connection != 0);
    gathers_for_ = connection;
    if (message_bytes_max_ == 0) message_bytes_max_ = endpoint_.capabilities().message_bytes_max;
}

void Outbox::end_message() {
    send_gathered();
    gathers_for_ = 0;
}

void Outbox::gather(std::span<const std::byte> head, std::span<const std::byte> body) {
    const size_t at = wire::aligned(gathered_.size());
    const size_t bytes = head.size() + body.size();
    if (bytes > kGatheredBytesMax || at + bytes > message_bytes_max_) send_gathered();
    if (bytes > kGatheredBytesMax) return send(gathers_for_, std::array{head, body});
    gathered_.resize(wire::aligned(gathered_.size()));
    gathered_.insert(gathered_.end(), head.begin(), head.end());
    gathered_.insert(gathered_.end(), body.begin(), body.end());
}

void Outbox::send_gathered() {
    if (gathered_.empty()) return;
    const std::span<const std::byte> part = gathered_;
    send(gathers_for_, std::span(&part, 1));
    gathered_.clear();
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
    if (connection == gathers_for_) gathered_.clear();
}

}  // namespace weir

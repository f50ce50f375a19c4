// SPDX-License-Identifier: Apache-2.0
#include "lib/node/outbox.h"

#include <array>
#include <cstring>

namespace weir {

void Outbox::send(transport::ConnectionId connection, wire::FrameHeader header,
                  std::span<const std::byte> body) {
    header.body_bytes = static_cast<uint32_t>(body.size());
    const std::array parts{std::as_bytes(std::span(&header, 1)), body};
    const bool first = waiting_.empty() || !waiting_.contains(connection);
    if (first && endpoint_.send(connection, parts) != transport::Post::kNotNow) return;
    Message message(sizeof header + body.size());
    std::memcpy(message.data(), &header, sizeof header);
    if (!body.empty()) std::memcpy(message.data() + sizeof header, body.data(), body.size());
    waiting_[connection].push_back(std::move(message));
}

size_t Outbox::flush() {
    size_t sent = 0;
    for (auto at = waiting_.begin(); at != waiting_.end();) {
        std::deque<Message>& messages = at->second;
        while (!messages.empty()) {
            const std::span<const std::byte> part = messages.front();
            if (endpoint_.send(at->first, std::span(&part, 1)) == transport::Post::kNotNow) break;
            messages.pop_front();
            ++sent;
        }
        at = messages.empty() ? waiting_.erase(at) : std::next(at);
    }
    return sent;
}

void Outbox::forget(transport::ConnectionId connection) {
    waiting_.erase(connection);
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "lib/node/link.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "lib/base/check.h"
#include "lib/base/log.h"
#include "lib/wire/frame.h"

namespace weir {

using transport::Post;

void Link::add(std::span<const std::span<const std::byte>> parts) {
    std::vector<std::byte>& frame = kept_.emplace_back();
    for (const std::span<const std::byte> part : parts)
        frame.insert(frame.end(), part.begin(), part.end());
    kept_bytes_ += frame.size() + kFrameBytes;
    ++unposted_count_;
}

bool Link::note_taken(uint64_t others_count) {
    if (others_count < dropped_ || others_count > offered_) return false;
    const size_t count = others_count - dropped_;
    WEIR_CHECK(count <= kept_.size());
    for (size_t i = 0; i < count; ++i) {
        WEIR_CHECK(kept_bytes_ >= kept_.front().size() + kFrameBytes);
        kept_bytes_ -= kept_.front().size() + kFrameBytes;
        kept_.pop_front();
    }
    WEIR_CHECK(kept_.empty() == (kept_bytes_ == 0));
    dropped_ = others_count;
    unposted_count_ = std::min(unposted_count_, kept_.size());
    return true;
}

bool Link::resume(uint64_t others_count) {
    if (!note_taken(others_count)) return false;
    unposted_count_ = kept_.size();
    owed_bytes_ = 0;  // the other end hears it as the link goes on
    return true;
}

size_t Link::post(transport::Endpoint& endpoint, transport::ConnectionId connection) {
    WEIR_CHECK(unposted_count_ <= kept_.size());
    const size_t before = unposted_count_;
    while (has_unposted()) {
        std::vector<std::byte>& frame = kept_[kept_.size() - unposted_count_];
        const std::span<const std::byte> part = frame;
        const Post answer = endpoint.send(connection, std::span(&part, 1));
        if (answer == Post::kNotNow || answer == Post::kClosed) break;
        if (answer == Post::kInvalid) {
            log(LogLevel::kError,
                "a frame of {} bytes to {} is sent without its body: the connection takes no "
                "frames of this length; this is a bug of weir",
                frame.size(), endpoint.peer_name(connection));
            kept_bytes_ -= frame.size() - wire::kHeaderBytesMin;
            frame.resize(wire::kHeaderBytesMin);
            std::memset(frame.data() + offsetof(wire::FrameHeader, body_bytes), 0,
                        sizeof(wire::FrameHeader::body_bytes));
            continue;
        }
        --unposted_count_;
        offered_ = std::max(offered_, dropped_ + kept_.size() - unposted_count_);
    }
    return before - unposted_count_;
}

void Link::take(size_t bytes) noexcept {
    ++taken_;
    owed_bytes_ += bytes + kFrameBytes;
}

void Link::post_count(transport::Endpoint& endpoint, transport::ConnectionId connection) {
    wire::FrameHeader header = wire::header_of(wire::Kind::kTaken);
    header.first = taken_;
    const std::array parts{wire::bytes_of(header)};
    if (endpoint.send(connection, parts) == Post::kPosted) owed_bytes_ = 0;
}

}  // namespace weir

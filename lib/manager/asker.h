// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Asker: who sent the manager a request, and what a reply to it needs, now or later.

#include <algorithm>
#include <cstdint>
#include <span>

#include "lib/node/outbox.h"
#include "lib/wire/frame.h"
#include "transport/transport.h"

namespace weir {

struct Asker {
    transport::ConnectionId connection = 0;
    uint64_t request = 0;
    uint32_t worker = 0;
};

inline void answer(Outbox& outbox, const Asker& to, Errc status,
                   std::span<const std::byte> body = {}) {
    wire::FrameHeader header = wire::header_of(wire::Kind::kReply);
    header.request = to.request;
    header.status = status;
    outbox.send(to.connection, header, body);
}

/// A body that may be longer than a message comes in several replies: `first` says how many bytes it has
/// in all.
inline void answer_in_parts(Outbox& outbox, const Asker& to, std::span<const std::byte> body,
                            size_t message_bytes_max) {
    wire::FrameHeader header = wire::header_of(wire::Kind::kReply);
    header.request = to.request;
    header.first = body.size();
    const size_t part_bytes_max = message_bytes_max - wire::kHeaderBytesMin;
    for (size_t at = 0; at < body.size(); at += part_bytes_max)
        outbox.send(to.connection, header,
                    body.subspan(at, std::min(part_bytes_max, body.size() - at)));
}

}  // namespace weir
